"""WHERE over a table: a row that never passed leaves no tombstone.

State: only the keys of the rows that pass.
"""

from __future__ import annotations

import pyarrow as pa

from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.tasks.processors.base import Changes, StoreView
from holdfast.tasks.processors.pairs import key_arrays
from holdfast.tasks.processors.records import (
    Emitted,
    Overlay,
    Records,
    RowProcessor,
    Side,
    sink_rows,
)
from holdfast.types.statements.topology import Query, TableStep

__all__ = ["TableWhereProcessor"]

_THERE = b"\x01"


class TableWhereProcessor(RowProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        if not isinstance(query.step, TableStep):
            raise TypeError(f"{query.id} has no table step")
        self._side = Side(query.step.input)
        self._sink = SinkRecords(query.sink)

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        records = Records.read(payload, (self._side,))
        passed = Overlay(store, (k for k in records.keys if k is not None))
        kept: list[int] = []
        for place, (_, key, row, _, _) in enumerate(records):
            if key is None or (row is None and passed.get(key) is None):
                continue
            passed.put(key, None if row is None else _THERE)
            kept.append(place)
        return self._emitted(records, kept).changes(
            passed, records, stream_time_ms, dropped_null_key=records.keys.count(None)
        )

    def _emitted(self, records: Records, kept: list[int]) -> Emitted:
        rows = [records.rows[i] for i in kept]
        named = self._side.decode(rows)
        return sink_rows(
            self._sink,
            key_arrays([records.keys[i] for i in kept], self._side.keys),
            [named[c.name] for c in self._side.columns],
            [row is None for row in rows],
            ([records.times[i] for i in kept], [records.causes[i] for i in kept]),
        )
