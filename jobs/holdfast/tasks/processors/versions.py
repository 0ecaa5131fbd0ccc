"""Rows of a versioned table: what a key was at a time, for as long as its history is kept.

One row of state per key: its versions from old to new, each with the time it is valid from.  The
last one before the history's start stays: it is what the key was when the history begins.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import cast

import msgpack

from holdfast.tasks.processors.records import Overlay

__all__ = ["Versions"]

_Version = tuple[int, bytes | None]


class Versions:
    """Reads and writes versions through a batch's overlay.

    Args:
        history_ms: how far behind stream time a version may be asked for or changed.
        stream_time_ms: before the batch; the table's own, as Kafka Streams counts it, since the
            stream's records move it as well.
    """

    def __init__(self, table: Overlay, history_ms: int, stream_time_ms: int) -> None:
        self._table = table
        self._history_ms = history_ms
        self._newest = stream_time_ms

    def put(self, key: bytes, row: bytes | None, time: int) -> None:
        """The key is `row` from `time` on, until a later version; None: it is not there."""
        self._newest = max(self._newest, time)
        oldest = self._newest - self._history_ms
        if time < oldest:
            return
        versions = [v for v in self._versions(key) if v[0] != time]
        versions.insert(bisect_right(versions, time, key=lambda v: v[0]), (time, row))
        kept = max(bisect_right(versions, oldest, key=lambda v: v[0]) - 1, 0)
        versions = versions[kept:]
        empty = all(row is None for _, row in versions)
        self._table.put(key, None if empty else msgpack.packb(versions))

    def at(self, key: bytes, time: int) -> bytes | None:
        """The row that was valid at `time`; None also where the history does not reach so far."""
        if time < self._newest - self._history_ms:
            return None
        versions = self._versions(key)
        found = bisect_right(versions, time, key=lambda v: v[0])
        return versions[found - 1][1] if found else None

    def _versions(self, key: bytes) -> list[_Version]:
        data = self._table.get(key)
        if data is None:
            return []
        return [cast("_Version", tuple(v)) for v in msgpack.unpackb(data)]
