"""Rows of a versioned table: the row of a key at a point in time, within the history kept.

One row of state per key: its versions from old to new, each with the time it is valid from.  The
last version before the history's start is kept: it is valid when the history begins.
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
