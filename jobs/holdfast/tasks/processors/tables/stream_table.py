"""A stream joined with a table: each record of the stream looks up the row of its key.

Changes of the table emit nothing.  State: the table's rows by join key.

Rows of a versioned table: what a key was at a time, for as long as its history is kept.

One row of state per key: its versions from old to new, each with the time it is valid from.  The
last version before the history's start is kept: it is valid when the history begins.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import cast

import msgpack
import pyarrow as pa

from holdfast.tasks.processors.base import Changes, StoreView
from holdfast.tasks.processors.pairs import Pair, Pairs
from holdfast.tasks.processors.records import Overlay, Records, RowProcessor
from holdfast.types.statements.topology import JoinKind, JoinStep, Query

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


_Version = tuple[int, bytes | None]


class Versions:
    """Reads and writes versions through a batch's overlay.

    Args:
        history_ms: how far behind its key's newest version a version may be read or changed.
            By key, not by stream time: the history must not depend on how batches are cut.
    """

    def __init__(self, table: Overlay, history_ms: int) -> None:
        self._table = table
        self._history_ms = history_ms

    def put(self, key: bytes, row: bytes | None, time: int) -> None:
        """Sets the key's row from `time` until a later version; None: deleted."""
        versions = self._versions(key)
        oldest = max([time, *(v[0] for v in versions[-1:])]) - self._history_ms
        if time < oldest:
            return
        versions = [v for v in versions if v[0] != time]
        versions.insert(_count(versions, time), (time, row))
        self._table.put(key, msgpack.packb(versions[max(_count(versions, oldest) - 1, 0) :]))

    def at(self, key: bytes, time: int) -> bytes | None:
        """The row that was valid at `time`; None also if the history does not reach that far."""
        versions = self._versions(key)
        found = _count(versions, time)
        if not found or time < versions[-1][0] - self._history_ms:
            return None
        return versions[found - 1][1]

    def _versions(self, key: bytes) -> list[_Version]:
        data = self._table.get(key)
        if data is None:
            return []
        return [cast("_Version", tuple(v)) for v in msgpack.unpackb(data)]


def _count(versions: list[_Version], time: int) -> int:
    """How many of the versions begin at `time` or before."""
    return bisect_right(versions, time, key=lambda v: v[0])
