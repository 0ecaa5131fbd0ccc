"""Compares a statement with the state and the sink rows of earlier statements.

State tasks do it, and checks before a deployment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.errors import IncompatibleStatement
from holdfast.state.changelog import CommitMarker
from holdfast.state.table_store import owner_of
from holdfast.state.topics.source_progress import SourceProgress
from holdfast.tasks.differences import changed, columns_differ, results_differ, state_differs
from holdfast.transport.partitioner import PARTITIONER
from holdfast.types.statements.facts import statement_facts
from holdfast.types.statements.topology import AggregateStep, Emit, Format, ProjectStep, Query

__all__ = ["check_marker", "check_progress", "check_saved", "rows_differ", "state_fits"]

_ACTION = (
    "undo the change, or start the changed statement under a new application.id and another sink; "
    "CREATE OR REPLACE may change the WHERE of a stream's aggregate, change expressions and append "
    "columns: existing rows then stay as they are until they change"
)


def state_fits(canonical: str, query: Query) -> bool:
    """Whether the query can use rows that the statement of that canonical text has stored.

    CREATE OR REPLACE may give a stream's aggregate another WHERE, as in ksqlDB; earlier records
    stay counted.  Without OR REPLACE another filter is treated as a mistake.
    """
    if canonical == query.canonical():
        return True
    if not _replaceable(query) or not isinstance(query.step, AggregateStep):
        return False
    before, now = json.loads(canonical), json.loads(query.canonical())
    return {**before, "filter": None} == {**now, "filter": None}


def rows_differ(facts: str, query: Query) -> list[str]:
    """How the sink rows of a statement with these facts differ from the query's.

    CREATE OR REPLACE may change expressions and append columns, as in ksqlDB.  Missing facts ("" in
    markers of an earlier version) are not compared.
    """
    if not facts:
        return []
    before, now = json.loads(facts), json.loads(statement_facts(query))
    if _replaceable(query):
        now["columns"][len(before["columns"]) :] = []
        now["results"] = before["results"]
    found = [
        f"{what} {changed(before[part], now[part])}"
        for part, what in _PARTS.items()
        if before[part] != now[part]
    ]
    for part, what in (("keys", "key"), ("columns", "output")):
        told = columns_differ(before[part], now[part])
        found += [f"the {what} columns differ: {told}"] if told else []
    same = before["columns"] == now["columns"] and before["keys"] == now["keys"]
    found += results_differ(before["results"], now["results"], query, same_columns=same)
    for old, new in zip(before["sources"], now["sources"], strict=False):
        found += _sources_differ(old, new)
    return found


_PARTS = {"sink": "the sink", "windows": "GRACE PERIOD, RETENTION or EMIT"}


_BY_PLACE = frozenset({Format.DELIMITED, Format.PROTOBUF_NOSR})


def _sources_differ(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """Columns may be added but not changed, and not moved in formats that go by position."""
    name = new["topic"]
    before, now = old.pop("columns"), new.pop("columns")
    if old != new:
        yield f"the source {name} {changed(old, new)}"
    types = dict(now)
    placed = not _BY_PLACE.isdisjoint(new["formats"])
    moved = placed and before != now[: len(before)]
    if moved or any(types.get(column) != kind for column, kind in before):
        yield f"the columns of the source {name} differ: {columns_differ(before, now)}"


def _replaceable(query: Query) -> bool:
    """Whether CREATE OR REPLACE may change the query, by ksqlDB's rules."""
    step = query.step
    if not query.replaces:
        return False
    if isinstance(step, AggregateStep):
        return step.window is None and not step.undo and step.emit is not Emit.FINAL
    return isinstance(step, ProjectStep) and not step.explode


def check_marker(
    marker: CommitMarker | None,
    query: Query,
    state_partitions: int,
    *,
    owner: str,
) -> None:
    """Compares a commit marker (None: nothing was committed yet) with the statement.

    Args:
        owner: of the changelog partition with the marker, see `store_name`.

    Raises:
        IncompatibleStatement: the marker is from another statement, another number of state
            partitions, or another place.
    """
    if marker is None:
        return
    _check_place(marker, owner, query.sink.name)
    problems = []
    if not state_fits(marker.canonical, query):
        problems += state_differs(marker.canonical, query)
    if marker.state_partitions != state_partitions:
        problems.append(f"state.partitions was {marker.state_partitions}, is {state_partitions}")
    if marker.partitioner != PARTITIONER:
        problems.append(f"the partitioner was {marker.partitioner}, is {PARTITIONER}")
    problems += rows_differ(marker.facts, query)
    if problems:
        raise IncompatibleStatement(
            f"The state of {query.sink.name} was written by another statement: "
            + "; ".join(problems),
            cause="the statement or state.partitions changed under a table that has state",
            action=_ACTION,
        )


def check_progress(marker: SourceProgress | None, query: Query) -> None:
    """Compares a commit marker of a query without state with the statement.

    Raises:
        IncompatibleStatement: another statement wrote the rows of its sink.
    """
    if marker is None:
        return
    problems = rows_differ(marker.facts, query)
    if marker.topic != query.source.topic and not problems:
        problems = [f"it read {marker.topic}, it reads {query.source.topic} now"]
    if problems:
        raise IncompatibleStatement(
            f"The rows of {query.sink.name} were written by another statement: "
            + "; ".join(problems),
            cause="the statement changed under a sink that has rows",
            action=_ACTION,
        )


def check_saved(canonical: str, facts: str, topics: Mapping[str, str], query: Query) -> None:
    """Compares the state of a savepoint with the statement that shall go on with it.

    Args:
        canonical, facts: of the statement that wrote the state; empty: it has none.
        topics: new names of the topics that the savepoint's job wrote itself.

    Raises:
        IncompatibleStatement: the statement cannot use it.
    """
    problems = []
    if canonical and not state_fits(_renamed(canonical, topics), query):
        problems += state_differs(_renamed(canonical, topics), query)
    if facts:
        before = json.loads(_renamed(facts, topics))
        # Two jobs cannot write one sink, so another topic is what is expected.
        before["sink"] = json.loads(statement_facts(query))["sink"]
        problems += rows_differ(json.dumps(before), query)
    if problems:
        raise IncompatibleStatement(
            f"The savepoint's state of {query.sink.name} was written by another statement: "
            + "; ".join(problems),
            cause="the statement is not the one that the savepoint was made of",
            action=_ACTION,
        )


def _renamed(text: str, topics: Mapping[str, str]) -> str:
    """A canonical text, or facts, with other names of topics.

    They are in fields `topic`, and second in a list `source` (`Input.fingerprint_parts`).
    """

    def exchanged(value: Any, field: str = "") -> Any:
        if field == "source" and isinstance(value, list):
            return [value[0], topics.get(value[1], value[1])]
        if isinstance(value, dict):
            return {key: exchanged(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [exchanged(each) for each in value]
        return topics.get(value, value) if field == "topic" else value

    return json.dumps(exchanged(json.loads(text)), sort_keys=True)


def _check_place(marker: CommitMarker, owner: str, table: str) -> None:
    found = owner_of(marker)
    if found != owner:
        raise IncompatibleStatement(
            f"The state of {table} was written for another place: the changelog of state partition "
            f"{owner} holds a commit marker of {found}.",
            cause="the changelog was copied, or restored, from another topic or topic partition",
            action="restore each partition of the changelog from its own backup, or start the "
            "statement under a new application.id",
        )
