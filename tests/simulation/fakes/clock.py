"""Virtual time: stands in for the module `time` wherever the engine or its judge looks at it."""

from __future__ import annotations

__all__ = ["VirtualTime"]

_BEGIN_S = 1_700_000_000.0


class VirtualTime:
    """Owns the only clock of a simulation; it moves when somebody sleeps, and never by itself.

    The wall clock of the engine's machines may jump; the fake broker goes by `monotonic`.
    """

    def __init__(self) -> None:
        self._now_s = _BEGIN_S
        self._wrong_s = 0.0

    def time(self) -> float:
        return self._now_s + self._wrong_s

    def monotonic(self) -> float:
        return self._now_s

    def jump(self, seconds: float) -> None:
        """Sets the wall clock forward, or back where `seconds` is negative."""
        self._wrong_s += seconds

    def perf_counter(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += max(seconds, 0.0)

    def now_ms(self) -> int:
        """The broker's time."""
        return int(self._now_s * 1000)
