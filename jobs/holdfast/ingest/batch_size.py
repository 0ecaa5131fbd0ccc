"""Sizes the next micro-batch so that it takes about the target time.

Large batches help a lagging query: the fixed cost of a batch occurs less often, and more records
of one key become one row.  Too large a batch delays the first result and is repeated as a whole
after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["BatchSize"]

_FIRST = 50_000  # offsets of the first batch, before any measurement, for an early commit
_LEAST = 10_000
_GROWTH = 4


class BatchSize:
    """Measures a query's batches and sizes the next one.

    Only batches that leave a backlog are measured: the next one follows at once, so the time
    between two plans is the duration of a batch.
    """

    def __init__(
        self, most: int, target_ms: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Starts without measurements.

        Args:
            most: offsets of the largest batch; 0: no limit.
            target_ms: how long a batch should take; 0: always `most` offsets.
            clock: returns seconds.
        """
        self._most = most
        self._target_s = target_ms / 1000
        self._clock = clock
        self._size = _FIRST
        self._warm = False  # the first batch opens stores and compiles, so it is not measured
        self._planned: tuple[int, float] | None = None  # offsets and time of a cut batch

    def limit(self) -> int | None:
        """The size of the batch being planned, in offsets; None for all there are."""
        if not self._target_s:
            return self._most or None
        now, last = self._clock(), self._planned
        if last is not None and now > last[1]:
            offsets, at = last
            most = self._size * _GROWTH
            fitting = round(offsets * self._target_s / (now - at)) if self._warm else most
            self._size = max(_LEAST, min(fitting, most))
            self._warm = True
        return min(self._size, self._most) if self._most else self._size

    def planned(self, offsets: int, *, cut: bool) -> None:
        """Records the number of offsets of the batch; `cut`: the topic holds more."""
        self._planned = (offsets, self._clock()) if cut and offsets else None
