"""The last query of a foreign-key join: drops results that a newer left row has overtaken.

The results of one left row come from the state partitions of all foreign keys it has pointed to,
independently of each other.  State: the newest version seen of each left row, and whether it has
a result.  The state outlives the row: an overtaken result may still be on its way.
"""

from __future__ import annotations

import struct

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
from holdfast.types.statements.topology import GONE, VERSION, Query, ResolveStep

__all__ = ["ResolveProcessor"]

_STATE = struct.Struct(">q?")  # version, whether there is a result


class ResolveProcessor(RowProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        if not isinstance(query.step, ResolveStep):
            raise TypeError(f"{query.id} has no resolve step")
        self._filtered = query.step.filtered
        self._side = Side(query.step.input)
        self._sink = SinkRecords(query.sink)

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        records = Records.read(payload, (self._side,))
        state = Overlay(store, (k for k in records.keys if k is not None))
        named = self._side.decode(records.rows)
        versions: list[int] = named[VERSION.name].to_pylist()
        gone: list[bool] = named[GONE.name].to_pylist()
        kept = [
            place
            for place, key in enumerate(records.keys)
            if key is not None and self._resolved(state, key, versions[place], gone[place])
        ]
        return self._emitted(records, named, gone, kept).changes(
            state, records, stream_time_ms, dropped_null_key=records.keys.count(None)
        )

    def _resolved(self, state: Overlay, key: bytes, version: int, gone: bool) -> bool:
        """Whether to write the result."""
        stored = state.get(key)
        newest, there = (version, False) if stored is None else _STATE.unpack(stored)
        if version < newest:
            return False
        state.put(key, _STATE.pack(version, not gone))
        return there or not gone or not self._filtered

    def _emitted(
        self, records: Records, named: dict[str, pa.Array], gone: list[bool], kept: list[int]
    ) -> Emitted:
        places = pa.array(kept, pa.int64())
        columns = (c.name for c in self._side.columns if c not in (VERSION, GONE))
        return sink_rows(
            self._sink,
            key_arrays([records.keys[i] for i in kept], self._side.keys),
            [named[name].take(places) for name in columns],
            [gone[i] for i in kept],
            ([records.times[i] for i in kept], [records.causes[i] for i in kept]),
        )
