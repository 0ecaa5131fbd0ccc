"""The part of a smoke check that asks query servers: a result in Kafka is read back by its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.client import Client, Partition, Result, Row
from holdfast.errors import HoldfastError
from holdfast.types.columns.schema import Base, Column
from holdfast.types.ids import is_changelog
from holdfast.types.statements.topology import Query, Sink

__all__ = ["Bounds", "Newest", "read_back"]

_SCAN = {"ksql.query.pull.table.scan.enabled": True}
_WHOLE = (Base.INTEGER, Base.BIGINT)
_PLAIN = (*_WHOLE, Base.STRING, Base.BOOLEAN)  # equal in JSON and in a query's answer
_BOUNDS = ("WINDOWSTART", "WINDOWEND")

Bounds = Callable[[str], Mapping[int, tuple[int, int]]]


@dataclass(frozen=True)
class Newest:
    """The newest result in a sink topic.

    Attributes:
        bounds: bounds of the topic when it was read, by partition.
        key: key columns, then the window's start and, for a session, its end, ms; None: there is
            no result yet.
        row: value columns by name.
    """

    bounds: Mapping[int, tuple[int, int]]
    key: Sequence[Any] | None
    row: Mapping[str, Any] | None


def read_back(client: Client, bounds: Bounds, query: Query, job: str, newest: Newest) -> bool:
    """Reads a table's newest result by its key from the query servers.

    The request carries the ends of the topic that the servers follow, so their answer includes
    everything committed by now.

    Args:
        bounds: returns the present start and read-committed end of a topic's partitions.
        job: the application.id.

    Returns:
        Whether a row was looked up; False where there is none yet, or its key has a type that
        cannot be written into a statement here: then the servers were asked for any row.

    Raises:
        NotAllowed: the servers require another token.
        HoldfastError: they do not serve the table, do not catch up in time, or their row differs
            from the topic's.
    """
    sink = query.sink
    topic = _followed(client, query, job)
    ends = {p: Partition(end, 0) for p, (_, end) in bounds(topic).items()}
    where = _condition(sink, newest.key)
    sql = f"SELECT * FROM {_quoted(sink.name)} {where or 'LIMIT 1'};"
    after = Result((), (), (), ends)
    found = client.query(sql, after=after, properties={} if where else _SCAN)
    if not where:
        return False
    if bounds(sink.topic) == newest.bounds:  # no newer record has come meanwhile
        _compare(sink, sql, list(found), newest.row or {})
    return True


def _followed(client: Client, query: Query, job: str) -> str:
    """The topic that the servers follow for the table."""
    name = query.sink.name
    about = next((table for table in client.tables() if table["name"] == name), None)
    if about is None:
        raise HoldfastError(
            f"The query servers do not serve {name}.",
            cause="they have not seen its topic yet, serve other statements, or the token may "
            "not read it",
            action="look at their log; GET /v1/tables lists what they serve, and why not the rest",
        )
    topic = str(about["topic"])
    if not is_changelog(topic, job, query.id) and topic != query.sink.topic:
        raise HoldfastError(
            f"The query servers read {name} from {topic}, which does not belong to the job {job}.",
            action="give --server the address of this job's query servers",
        )
    return topic


def _condition(sink: Sink, key: Sequence[Any] | None) -> str:
    """The WHERE clause for one key; empty where it cannot be written."""
    if key is None or not all(_written(column) for column in sink.key_columns):
        return ""
    names = [_quoted(column.name) for column in sink.key_columns]
    pairs = zip([*names, *_BOUNDS], key, strict=False)  # of a tumbling window only the start
    return "WHERE " + " AND ".join(f"{name} = {_literal(value)}" for name, value in pairs)


def _written(column: Column) -> bool:
    return column.type.base in (*_WHOLE, Base.STRING)


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _compare(sink: Sink, sql: str, found: Sequence[Row], row: Mapping[str, Any]) -> None:
    """Raises HoldfastError where the answer differs from the topic's row."""
    names = [c.name for c in sink.value_columns if c.type.base in _PLAIN]
    told = {n: found[0][n] for n in names if n in found[0]} if len(found) == 1 else None
    wanted = {n: row.get(n) for n in names if told is None or n in told}
    if told != wanted:
        raise HoldfastError(
            f"The query servers answer {sql} with {told if told is not None else len(found)} "
            f"{'' if told is not None else 'rows '}though the topic {sink.topic} has {wanted}.",
            cause="another program writes to the sink topic, or Holdfast has a bug",
            action="compare with `holdfast verify`; remove a server's volume to have it restored",
        )
