"""A grouped query over one state partition, fed records batch by batch, however they are cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from holdfast.ingest.used_columns import used_columns
from holdfast.tasks.pack.key_columns import state_keys
from holdfast.tasks.pack.packing import Packer, added, from_arrow, unpacked
from holdfast.tasks.processors.base import NO_TIME
from holdfast.tasks.processors.kinds import processor_of
from holdfast.types.columns.schema import SqlType
from holdfast.types.statements.topology import (
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOMBSTONE,
    AggregateStep,
    Query,
)
from tests.support.jobs.rows_view import RowsView

__all__ = ["CutRunner", "Row", "cut", "state_key"]

Row = Mapping[str, Any]  # the source's columns, and TIMESTAMP
Told = tuple[bytes | None, int]


def cut(count: int, cuts: set[int]) -> Iterator[slice]:
    """The batches of so many records."""
    edges = sorted({0, *(c for c in cuts if c < count), count})
    return (slice(start, end) for start, end in pairwise(edges))


def state_key(value: Any, kind: SqlType) -> bytes | None:
    """The state key of one column."""
    key: bytes | None = state_keys([pa.array([value], kind.arrow())], [kind])[0].as_py()
    return key


class CutRunner:
    """The query's rows of state, and what a reader of its changelog and of its sink has."""

    def __init__(self, query: Query) -> None:
        assert isinstance(query.step, AggregateStep)
        self._query, self._read = query, _read_schema(query)
        self._processor = processor_of(query)
        self._stream_time = NO_TIME
        self._offset = 0
        self.rows: dict[bytes, bytes] = {}
        self.elements: dict[bytes, bytes | None] = {}
        self.changelog: dict[bytes, bytes] = {}
        self.sink: dict[bytes | None, Told] = {}
        self.told: list[tuple[bytes | None, Told]] = []

    def run(self, records: Sequence[Row], cuts: set[int], replayed: set[int]) -> CutRunner:
        """Feeds all of them; batches whose number is in `replayed` fail once before they count."""
        for number, batch in enumerate(cut(len(records), cuts)):
            if number in replayed:
                self._process(records[batch])
            self._take(records[batch])
        return self

    def _take(self, records: Sequence[Row]) -> None:
        changes = self._process(records)
        self._offset += len(records)
        self._stream_time = changes.stream_time_ms
        for key, row in zip(changes.keys, changes.rows, strict=True):
            for place in (self.rows, self.changelog):
                place.pop(key, None)
                if row is not None:
                    place[key] = row
        self.elements |= changes.elements
        sent = zip(changes.sink_keys, changes.sink_values, changes.sink_timestamps, strict=True)
        for key, value, time in sent:
            self.told.append((key, (value, time)))
            self.sink.pop(key, None)
            if value is not None:
                self.sink[key] = value, time

    def _process(self, records: Sequence[Row]) -> Any:
        rows = [self._placed(n, record) for n, record in enumerate(records)]
        return self._processor.process(
            self._packed(rows), self._stream_time, RowsView(dict(self.rows), dict(self.elements))
        )

    def _placed(self, number: int, record: Row) -> dict[str, Any]:
        offset = self._offset + number
        return {**record, PARTITION: 0, OFFSET: offset, TOMBSTONE: False}

    def _packed(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Two pieces, as of two tasks; the later one arrives first."""
        pieces = [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
        batches = [pa.RecordBatch.from_pylist(piece, self._read) for piece in pieces if piece]
        packer = Packer(self._query, 1, (0,))
        blobs = unpacked(blob for batch in batches for _, blob in packer([batch]))
        return from_arrow(blobs.get(0, []), self._processor.schema)


def _read_schema(query: Query) -> pa.Schema:
    """The columns that ingest gives."""
    kinds = {c.name: c.type.arrow() for c in query.source.readable}
    beside = {
        PARTITION: pa.int32(),
        OFFSET: pa.int64(),
        TIMESTAMP: pa.int64(),
        TOMBSTONE: pa.bool_(),
    }
    needed = added(query, 0)
    return pa.schema(
        [(name, kinds[name]) for name in used_columns(query)]
        + [(name, kind) for name, kind in beside.items() if name in needed]
    )
