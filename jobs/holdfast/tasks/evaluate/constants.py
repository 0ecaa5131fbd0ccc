"""Constants of statements (INSERT INTO … VALUES, ASSERT VALUES) and the records they make."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.tasks.evaluate.source_rows import values_of
from holdfast.types.statements.topology import Insertion, NamedExpression

__all__ = ["InsertedRecord", "constants", "inserted"]

_ONE_ROW = {"row": [0]}


@dataclass(frozen=True)
class InsertedRecord:
    """A record of INSERT INTO … VALUES; `timestamp` in ms."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int


def constants(values: Sequence[NamedExpression]) -> list[pa.Array]:
    """One array of one row per expression, of its column's type."""
    found = values_of(pa.RecordBatch.from_pydict(_ONE_ROW), [v.expression for v in values])
    return [found[v.expression] for v in values]


def inserted(insertion: Insertion) -> InsertedRecord:
    """The record of an insertion; without a ROWTIME its time is now.

    Raises:
        ValueError: ROWTIME is NULL.
    """
    source = insertion.source
    arrays = constants(insertion.values)
    width = len(source.key_columns)
    records = SinkRecords(source.as_sink())
    keys = records.keys(arrays[:width]) if width else [None]
    return InsertedRecord(
        source.topic, keys[0], records.values(arrays[width:])[0], _time(insertion)
    )


def _time(insertion: Insertion) -> int:
    if insertion.timestamp is None:
        return time.time_ns() // 1_000_000
    found = constants([NamedExpression("ROWTIME", insertion.timestamp)])[0][0].as_py()
    if found is None:
        raise ValueError(f"ROWTIME of {insertion.source.name} is null")
    return int(found)
