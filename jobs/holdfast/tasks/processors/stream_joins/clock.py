"""The stream times of a stream-stream join, and the sequence numbers of its rows."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from holdfast.state.segments import FOREVER_MS
from holdfast.tasks.processors.base import NO_TIME
from holdfast.tasks.processors.records import Overlay

__all__ = ["CLOCK", "FOREVER", "Clock", "merged_clocks"]

FOREVER = FOREVER_MS.to_bytes(8, "big")  # as a state key's time: never too old
CLOCK = b"T" + FOREVER  # the state key, in each state partition
_LAYOUT = struct.Struct("<qqqq")


class Clock:
    """The newest time of all records and of each side's kept records; the next row's number."""

    def __init__(self, state: Overlay) -> None:
        self._state = state
        stored = state.get(CLOCK)
        times = (NO_TIME, NO_TIME, NO_TIME, 0) if stored is None else _LAYOUT.unpack(stored)
        self.newest: int = times[0]
        self._sides: list[int] = [times[1], times[2]]
        self._next: int = times[3]

    def side(self, side: int) -> int:
        """The time of the newest record that the side has kept, ms."""
        return self._sides[side]

    def advance(self, time: int) -> None:
        """Takes in a record's time, also of a record without key or value."""
        self.newest = max(self.newest, time)

    def advance_side(self, side: int, time: int) -> None:
        """Takes in the time of a record that the side keeps."""
        self._sides[side] = max(self._sides[side], time)

    def numbers(self, count: int) -> npt.NDArray[np.int64]:
        """`count` unused row numbers, ascending."""
        first = self._next + 1
        self._next += count
        return np.arange(first, first + count, dtype=np.int64)

    def store(self) -> None:
        """Stores the clock for the next batch."""
        self._state.put(CLOCK, _LAYOUT.pack(self.newest, *self._sides, self._next))


def merged_clocks(rows: Sequence[bytes]) -> bytes:
    """The clock of a state partition that continues with keys of all these."""
    return _LAYOUT.pack(*map(max, zip(*map(_LAYOUT.unpack, rows), strict=True)))
