"""Constants of statements (INSERT INTO … VALUES, ASSERT VALUES), evaluated by Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.runtime.jvm.functions import register_calls
from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.types.topology import Insertion, NamedExpression

__all__ = ["InsertedRecord", "constants", "inserted"]


@dataclass(frozen=True)
class InsertedRecord:
    """A record of INSERT INTO … VALUES; `timestamp` in ms."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int


def constants(session: SparkSession, values: Sequence[NamedExpression]) -> list[pa.Array]:
    """One array of one row per expression, of its column's type."""
    register_calls(session, [value.expression for value in values])
    select = ", ".join(f"{value.sql} AS c{i}" for i, value in enumerate(values))
    row = session.sql(f"SELECT {select}").toArrow()
    return [
        row[f"c{i}"].combine_chunks().cast(value.column.type.arrow())
        for i, value in enumerate(values)
    ]


def inserted(session: SparkSession, insertion: Insertion) -> InsertedRecord:
    """The record of an insertion; without a ROWTIME its time is now."""
    source = insertion.source
    arrays = constants(session, insertion.values)
    width = len(source.key_columns)
    records = SinkRecords(source.as_sink())
    keys = records.keys(arrays[:width]) if width else [None]
    return InsertedRecord(
        source.topic, keys[0], records.values(arrays[width:])[0], _time(session, insertion)
    )


def _time(session: SparkSession, insertion: Insertion) -> int:
    if insertion.timestamp is None:
        return time.time_ns() // 1_000_000
    row = session.sql(f"SELECT CAST({insertion.timestamp} AS BIGINT) AS t").first()
    if row is None or row["t"] is None:
        raise ValueError(f"ROWTIME of {insertion.source.name} is null")
    return int(row["t"])
