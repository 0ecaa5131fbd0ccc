"""A grouped query over one state partition, fed records batch by batch, however they are cut.

Where ingest packs a query's batches the real `Packer` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa

from holdfast.tasks.evaluate.plain_text import java_double
from holdfast.tasks.pack.key_columns import state_keys
from holdfast.tasks.pack.packing import Packer, from_arrow, packs, unpacked
from holdfast.tasks.processors.aggregates.state import partials_of
from holdfast.tasks.processors.base import KEY, NO_TIME
from holdfast.tasks.processors.kinds import processor_of
from holdfast.types.ingest import Packing
from holdfast.types.schema import Base, SqlType
from holdfast.types.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    TOMBSTONE,
    AggregateStep,
    Expression,
    Query,
)
from tests.support.rows_view import RowsView

__all__ = ["CutRunner", "Row", "cut", "state_key"]

Row = Mapping[str, Any]  # the source's columns, and TIMESTAMP
Told = tuple[bytes | None, int]


def cut(count: int, cuts: set[int]) -> Iterator[slice]:
    """The batches of so many records."""
    edges = sorted({0, *(c for c in cuts if c < count), count})
    return (slice(start, end) for start, end in pairwise(edges))


def state_key(value: Any, kind: SqlType) -> bytes | None:
    """The state key of one column; of a DOUBLE what Spark's `to_json` makes of it."""
    if kind.base is not Base.DOUBLE:
        key: bytes | None = state_keys([pa.array([value], kind.arrow())], [kind])[0].as_py()
        return key
    if value is None:
        return None
    return orjson.dumps({"k0": value if math.isfinite(value) else java_double(value)})


class CutRunner:
    """The query's rows of state, and what a reader of its changelog and of its sink has."""

    def __init__(self, query: Query) -> None:
        assert isinstance(query.step, AggregateStep)
        self._query, self._step = query, query.step
        self._processor = processor_of(query)
        self._stream_time = NO_TIME
        self._offset = 0
        self.rows: dict[bytes, bytes] = {}
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
        sent = zip(changes.sink_keys, changes.sink_values, changes.sink_timestamps, strict=True)
        for key, value, time in sent:
            self.told.append((key, (value, time)))
            self.sink.pop(key, None)
            if value is not None:
                self.sink[key] = value, time

    def _process(self, records: Sequence[Row]) -> Any:
        rows = [self._placed(n, record) for n, record in enumerate(records)]
        payload = self._packed(rows) if packs(self._query) else self._by_hand(rows)
        return self._processor.process(payload, self._stream_time, RowsView(dict(self.rows)))

    def _placed(self, number: int, record: Row) -> dict[str, Any]:
        offset = self._offset + number
        return {**record, PARTITION: 0, OFFSET: offset, TOMBSTONE: False, SEQUENCE: None}

    def _packed(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Two pieces, as of two tasks, that are folded where they meet."""
        kinds = {c.name: c.type.arrow() for c in self._query.source.readable}
        kinds |= {PARTITION: pa.int32(), OFFSET: pa.int64(), TIMESTAMP: pa.int64()}
        schema = pa.schema([*kinds.items(), (TOMBSTONE, pa.bool_())])
        packer = Packer(Packing(self._query, 1), 0)
        pieces = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
        batches = [pa.RecordBatch.from_pylist(piece, schema) for piece in pieces if piece]
        blobs = unpacked(blob for batch in batches for _, blob in packer([batch]))
        return from_arrow(blobs.get(0, []), self._processor.schema)

    def _by_hand(self, rows: list[dict[str, Any]]) -> pa.Table:
        """A payload row for each record, for keys that ingest does not pack."""
        (key,) = self._step.keys
        keyed = [{**r, KEY: state_key(r[key.ref or ""], key.column.type)} for r in rows]
        times = pa.array([r[TIMESTAMP] for r in rows], pa.int64())
        found = partials_of(self._step, lambda a: _column(rows, a), times)
        schema = self._processor.schema
        beside = {n: pa.array([r.get(n) for r in keyed], schema.field(n).type)
                  for n in schema.names if n not in found}  # fmt: skip
        return pa.table({n: (found | beside)[n] for n in schema.names}, schema=schema)


def _column(rows: Sequence[Row], argument: Expression) -> pa.Array:
    return pa.array([row[argument.ref or ""] for row in rows], argument.type.arrow())
