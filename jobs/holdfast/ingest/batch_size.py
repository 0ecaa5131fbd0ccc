"""How large the next micro-batch is: what the query gets done in the time it is given.

Behind its topic a query gains from large batches: what a batch costs whatever its size is paid
less often, and more records of one key become one row.  Too large a batch delays the first result
and is repeated as a whole after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["BatchSize"]

_FIRST = 50_000  # offsets, before anything was measured: something is to be committed early
_LEAST = 10_000
_GROWTH = 4


class BatchSize:
    """Measures a query's batches and sizes the next one.

    Only batches that left something behind are measured: their successor follows at once, so the
    time between two plans is the time of a batch.
    """

    def __init__(
        self, most: int, target_ms: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Nothing was measured yet.

        Args:
            most: offsets of the largest batch; 0: no limit.
            target_ms: how long a batch shall take; 0: not sized, always `most`.
            clock: in seconds.
        """
        self._most = most
        self._target_s = target_ms / 1000
        self._clock = clock
        self._size = _FIRST
        self._warm = False  # the first batch opens stores and compiles; it is no measure
        self._planned: tuple[int, float] | None = None  # offsets and time of a cut batch

    def limit(self) -> int | None:
        """Offsets of the batch that is planned now; None for all there are."""
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
        """The batch holds so many offsets; `cut`: the topic holds more."""
        self._planned = (offsets, self._clock()) if cut and offsets else None
