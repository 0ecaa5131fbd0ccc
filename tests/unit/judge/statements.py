"""Queries as the planner hands them over, for the judge's tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.judge.read.decode import InputDecoder
from holdfast.judge.recompute.recompute import InputTable, Recomputed, recompute_table
from holdfast.judge.statement.translate import BatchQuery, translate
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, Column
from holdfast.types.statements.topology import ProjectStep, Query, Sink, Source, TimestampSpec

FLIGHTS = Source(
    name="FLIGHTS",
    kind="STREAM",
    topic="flights",
    key_columns=(Column("ID", STRING),),
    value_columns=(
        Column("CARRIER", STRING),
        Column("ORIGIN", STRING),
        Column("DELAY", DOUBLE),
        Column("SEATS", INTEGER),
        Column("TS", BIGINT),
    ),
    timestamp=TimestampSpec("TS"),
)


def query(
    select: str, keys: Sequence[str], values: Sequence[str], source: Source = FLIGHTS
) -> Query:
    """A query of `CREATE TABLE … AS <select>` whose sink has these columns."""
    sink = Sink(
        "T",
        "TABLE",
        "T",
        tuple(Column(k, STRING) for k in keys),
        tuple(Column(v, DOUBLE) for v in values),
    )
    statement = f"CREATE TABLE t AS {select} EMIT CHANGES;"
    return Query("ctas_t", statement, source, None, ProjectStep((), ()), sink)


def flight(carrier: str | None, **fields: Any) -> dict[str, Any]:
    return {"carrier": carrier, "ts": 0, **fields}


def load(batch: BatchQuery, records: Sequence[Any], partitions: int = 1) -> InputTable:
    """Records (JSON objects, bytes or None) spread over the topic partitions in turn."""
    table = InputTable(InputDecoder(FLIGHTS, batch.needed))
    for i, record in enumerate(records):
        value = record if record is None or isinstance(record, bytes) else json.dumps(record)
        data = value.encode() if isinstance(value, str) else value
        table.add(i % partitions, i // partitions, b"id", data, 7)
    return table


def recomputed(
    select: str,
    keys: Sequence[str],
    values: Sequence[str],
    records: Sequence[Any],
    partitions: int = 1,
) -> Recomputed:
    """The table that this SELECT makes of these records."""
    asked = query(select, keys, values)
    batch = translate(asked, list(range(partitions)))
    return recompute_table(batch, asked.sink, load(batch, records, partitions))
