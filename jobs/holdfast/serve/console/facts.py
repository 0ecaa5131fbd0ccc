"""The page's data on server, peers, jobs, tables and state partitions, as JSON values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import holdfast
from holdfast.errors import Refused
from holdfast.serve.console.drivers import Driver
from holdfast.serve.console.graph import graph_of
from holdfast.serve.console.rows import columns_json
from holdfast.serve.contract import Member, MemberState, PartitionState, ServedTable, Serving
from holdfast.serve.visible import Visible
from holdfast.sql.explain.topology import explain
from holdfast.types.freshness import heard_ms, silent_s
from holdfast.types.ids import changelog_topic
from holdfast.types.statements.topology import Query, Topology
from holdfast.types.status import QueryState

__all__ = ["changelogs", "graph", "known_queries", "overview", "partitions", "related", "relation"]


def overview(serving: Serving, drivers: Sequence[Driver], seen: Visible) -> dict[str, Any]:
    """The server, its peers, the jobs, and every stream and table that the client may see."""
    members = serving.cluster.members()
    return {
        "server": {
            "id": serving.cluster.me,
            "version": holdfast.__version__,
            "application_id": serving.settings.application_id,
            "started_ms": serving.started_ms,
            "now_ms": int(time.time() * 1000),
            "catalog_version": serving.catalog.version,
        },
        "kafka": _kafka(members),
        "members": [_member(member, serving.cluster.me, seen) for member in members],
        "jobs": list(_jobs(drivers, seen)),
        "relations": _relations(serving, drivers, members, seen),
    }


def _kafka(members: Iterable[Member]) -> dict[str, Any]:
    """Whether the servers hear from Kafka; while they do not, every lag is that of `heard_ms`."""
    living = [m for m in members if m.state is not MemberState.GONE]
    states = [held.state for member in living for held in member.holdings]
    heard = heard_ms(state.checked_ms for state in states if not state.restoring)
    return {"answers": not silent_s(heard), "heard_ms": heard}


def _member(member: Member, me: str, seen: Visible) -> dict[str, Any]:
    states = [held.state for held in member.shown if held.table in seen.names]
    return {
        "id": member.server_id,
        "address": member.address,
        "state": member.state.value,
        "me": member.server_id == me,
        "seen_ms": member.seen_ms,
        "partitions": len(states),
        "restoring": sum(1 for s in states if s.restoring),
        "rows": sum(max(0, s.rows) for s in states),
        "bytes": sum(s.bytes for s in states),
        "lag": sum(s.lag for s in states),
    }


def _jobs(drivers: Iterable[Driver], seen: Visible) -> Iterator[dict[str, Any]]:
    """Jobs that write a visible table; in full where the client may see all their tables."""
    for driver in drivers:
        written = [seen.sees(str(told.get("sink"))) for told in driver.queries.values()]
        if any(written):
            hidden = {} if all(written) else {"reason": "", "lag": None, "left_out": None}
            yield _job(driver) | hidden


def _job(driver: Driver) -> dict[str, Any]:
    status = driver.status
    return {
        "application_id": driver.application_id,
        "state": status.get("state", ""),
        "answers": driver.answers,
        "ready": bool(status.get("ready")) and driver.answers,
        "reason": status.get("reason", ""),
        "lag": status.get("lag") if driver.answers else None,
        "caught_up": bool(status.get("caught_up")) and driver.answers,
        "updated_ms": status.get("updated_ms", 0),
        "executors": [str(e.get("id", "")) for e in status.get("executors", [])],
        "left_out": _left_out(driver),
    }


def _left_out(driver: Driver) -> dict[str, int]:
    """Records in no result, by kind, summed over the job's queries."""
    told = [_progress(query) for query in driver.queries.values()]
    kinds = ("late", "null_keys", "dead_letters")
    return {kind: sum(int(query[kind]) for query in told) for kind in kinds}


def _relations(
    serving: Serving, drivers: Sequence[Driver], members: Sequence[Member], seen: Visible
) -> list[dict[str, Any]]:
    """Declared sources first, then the sinks of queries, in the script's order."""
    topology, tables = serving.catalog.topology(), serving.catalog.tables()
    unserved = serving.catalog.unserved()
    told = _told_by_query(serving, drivers)
    best = _best(members)
    queries = {query.sink.name: query for query in topology.queries}
    names = dict.fromkeys([*(s.name for s in topology.sources), *queries])
    found = []
    for name in (name for name in names if name in seen.names):
        line: dict[str, Any] = {"name": name, "served": name in tables}
        line["reason"] = unserved[name].reason if name in unserved else ""
        line |= _shape(topology, queries.get(name), name)
        if name in queries:
            line |= _progress(told.get(queries[name].id, {}))
        if name in tables:
            line |= _stored(tables[name], best)
        found.append(line)
    return found


def _shape(topology: Topology, query: Query | None, name: str) -> dict[str, Any]:
    of = query.sink if query else next(s for s in topology.sources if s.name == name)
    return {
        "kind": of.kind,
        "query": query.id if query else None,
        "internal": bool(query and query.sink.internal),
        "stateful": bool(query and query.stateful),
        "topic": of.topic,
        "window": of.window.value if of.window else None,
        "key": columns_json(of.key_columns),
        "value": columns_json(of.value_columns),
    }


def related(serving: Serving, drivers: Iterable[Driver]) -> list[Driver]:
    """The drivers of the jobs that are served; the home may hold others."""
    wanted = {(q.id, q.sink.name) for q in serving.catalog.topology().queries}
    return [d for d in drivers if wanted & {(i, t.get("sink")) for i, t in d.queries.items()}]


def _told_by_query(serving: Serving, drivers: Iterable[Driver]) -> dict[str, Mapping[str, Any]]:
    """The drivers' reports, by query.

    Where several jobs have a query of that id, the one whose sink is followed here wins.
    """
    followed = {table.topic for table in serving.catalog.tables().values()}
    main = serving.settings.application_id

    def fits(pair: tuple[Driver, Mapping[str, Any]]) -> tuple[bool, bool, bool]:
        driver, told = pair
        return told.get("changelog") in followed, driver.application_id == main, driver.answers

    found: dict[str, tuple[Driver, Mapping[str, Any]]] = {}
    for driver in drivers:
        for query_id, told in driver.queries.items():
            known = found.get(query_id)
            if known is None or fits(known) < fits((driver, told)):
                found[query_id] = driver, told
    return {query_id: told for query_id, (_, told) in found.items()}


def _progress(told: Mapping[str, Any]) -> dict[str, Any]:
    """A query's progress as its driver reports it."""
    return {
        "records": told.get("records_total"),
        "source_lag": told.get("lag"),
        "input": told.get("input_records", 0),
        "late": told.get("dropped_late", 0),
        "null_keys": told.get("dropped_null_key", 0),
        "dead_letters": told.get("dead_letters", 0),
        "warnings": list(told.get("warnings", ())),
        "batch": told.get("batch_id"),
        "state": told.get("state", QueryState.RUNNING.value),
    }


_Best = Mapping[tuple[str, int], PartitionState]


def _best(members: Iterable[Member]) -> _Best:
    """The holder with the highest position, for each partition."""
    found: dict[tuple[str, int], PartitionState] = {}
    for member in members:
        if member.state is MemberState.GONE:
            continue
        for held in member.shown:
            place = held.table, held.partition
            if place not in found or found[place].position < held.state.position:
                found[place] = held.state
    return found


def _stored(table: ServedTable, best: _Best) -> dict[str, Any]:
    places = [best.get((table.name, p)) for p in range(table.partitions)]
    states = [state for state in places if state is not None]
    return {
        "partitions": table.partitions,
        "held": len(states),
        "restoring": sum(1 for s in states if s.restoring),
        "rows": sum(max(0, s.rows) for s in states),
        "bytes": sum(s.bytes for s in states),
        "lag": sum(s.lag for s in states),
        "silent": silent_s(heard_ms(s.checked_ms for s in states if not s.restoring)) > 0,
    }


def graph(serving: Serving, drivers: Iterable[Driver], seen: Visible) -> dict[str, Any]:
    """The visible part of all jobs' topology, as `graph_of` draws it."""
    found = changelogs(serving, drivers)
    return asdict(graph_of(seen.topology.queries, found, seen.results))


def known_queries(serving: Serving, seen: Visible) -> set[str]:
    """The ids of the queries that write a visible stream or table."""
    queries = serving.catalog.topology().queries
    return {query.id for query in queries if query.sink.name in seen.names}


def changelogs(serving: Serving, drivers: Iterable[Driver]) -> dict[str, str]:
    """Changelog topics, by the id of the query."""
    told = _told_by_query(serving, drivers)
    main = serving.settings.application_id
    return {
        query.id: str(told.get(query.id, {}).get("changelog") or changelog_topic(main, query.id))
        for query in serving.catalog.topology().queries
        if query.stateful
    }


def relation(
    serving: Serving, drivers: Iterable[Driver], name: str, seen: Visible
) -> dict[str, Any]:
    """The statement of a stream or table, and the output of `holdfast explain` for its query.

    Raises:
        Refused: no stream or table has that name.
    """
    topology = seen.topology
    query = topology.query(name)
    if name not in seen.names:
        raise Refused(f"There is no stream or table {name}.", action="see the list of tables")
    if any(sink.name == name for sink in seen.results):
        why = "It is written from streams or tables that you may not read."
        return {"name": name, "statement": "", "explain": why}
    if query is None:
        only = tuple(s for s in topology.sources if s.name == name)
        return {"name": name, "statement": "", "explain": explain(Topology((), only))}
    alone = Topology((query,), (), topology.properties)
    return {
        "name": name,
        "statement": query.statement,
        "explain": explain(alone),
        "changelog": changelogs(serving, drivers).get(query.id, ""),
    }


def partitions(
    serving: Serving, drivers: Sequence[Driver], seen: Visible, wanted: str = ""
) -> list[dict[str, Any]]:
    """Partitions of the table `wanted`, or of all visible tables: the executor that owns each, and
    the servers that hold it.
    """
    told = _told_by_query(serving, drivers)
    holders = _holders(serving.cluster.members())
    found = []
    tables = {n: t for n, t in serving.catalog.tables().items() if n in seen.names}
    for table in [tables[wanted]] if wanted in tables else tables.values():
        owners = {
            one.get("partition"): one
            for one in told.get(table.query_id or "", {}).get("state_partitions", [])
        }
        for partition in range(table.partitions):
            place = table.name, partition
            found.append(
                {
                    "table": table.name,
                    "partition": partition,
                    "topic": table.topic,
                    "owner": _owner(owners.get(partition)),
                    "holders": holders.get(place, []),
                }
            )
    return found


def _owner(told: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The executor's store, its snapshot and its standbys, as the driver last reported them."""
    if told is None:
        return None
    names = (
        "owner", "volume", "rows", "bytes", "position", "restore_records", "restore_seconds",
        "snapshot",
    )  # fmt: skip
    return {name: told.get(name) for name in names} | {"standbys": list(told.get("standbys", ()))}


def _holders(members: Iterable[Member]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for member in members:
        for held in member.shown:
            state = held.state
            found.setdefault((held.table, held.partition), []).append(
                {
                    "server": member.server_id,
                    "answers": member.state is not MemberState.GONE,
                    "position": state.position,
                    "end": state.end,
                    "lag": state.lag,
                    "rows": state.rows,
                    "bytes": state.bytes,
                    "restoring": state.restoring,
                    "stream_time_ms": state.stream_time_ms,
                    "error": state.error,
                    "undecodable": state.undecodable,
                }
            )
    return found
