"""Virtual time: stands in for the module `time` wherever the engine or its judge looks at it."""

from __future__ import annotations

__all__ = ["VirtualTime"]

_BEGIN_S = 1_700_000_000.0


class VirtualTime:
    """Owns the only clock of a simulation; it moves when somebody sleeps, and never by itself."""

    def __init__(self) -> None:
        self._now_s = _BEGIN_S

    def time(self) -> float:
        return self._now_s

    def monotonic(self) -> float:
        return self._now_s

    def perf_counter(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += max(seconds, 0.0)

    def now_ms(self) -> int:
        return int(self._now_s * 1000)
