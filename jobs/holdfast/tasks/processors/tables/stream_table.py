"""A stream joined with a table: each record of the stream looks up the row of its key.

Changes of the table emit nothing.  State: the table's rows by join key.
"""

from __future__ import annotations

import pyarrow as pa

from holdfast.tasks.processors.base import Changes, StoreView
from holdfast.tasks.processors.pairs import Pair, Pairs
from holdfast.tasks.processors.records import Overlay, Records, RowProcessor
from holdfast.tasks.processors.tables.versions import Versions
from holdfast.types.topology import JoinKind, JoinStep, Query

__all__ = ["StreamTableProcessor"]


class StreamTableProcessor(RowProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        step = query.step
        if not isinstance(step, JoinStep):
            raise TypeError(f"{query.id} has no join step")
        self._outer = step.kind is JoinKind.LEFT
        self._history_ms = step.history_ms
        self._pairs = Pairs(step, query.sink)

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        records = Records.read(payload, (self._pairs.left, self._pairs.right))
        table = Overlay(store, (k for k in records.keys if k is not None))
        pairs, dropped = self._joined(records, table)
        emitted = self._pairs.of_stream(pairs)
        return emitted.changes(table, records, stream_time_ms, dropped_null_key=dropped)

    def _joined(self, records: Records, table: Overlay) -> tuple[list[Pair], int]:
        """(results, records dropped for want of a key)."""
        pairs: list[Pair] = []
        dropped = 0
        versions = None
        if self._history_ms is not None:
            versions = Versions(table, self._history_ms)
        for side, key, row, time, cause in records:
            if key is None and (side == 1 or not self._outer):
                dropped += 1
            elif side == 1 and key is not None:
                if versions is None:
                    table.put(key, row)
                else:
                    versions.put(key, row, time)
            elif row is not None:
                found = None
                if key is not None:
                    found = table.get(key) if versions is None else versions.at(key, time)
                if found is not None or self._outer:
                    pairs.append(Pair(key, row, found, time, cause))
        return pairs, dropped
