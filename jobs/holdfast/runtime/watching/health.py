"""Is the job alive, and is it ready: what probes and people ask of a driver.

    starting Spark → restoring … → starting the streams → serving → stopping

Only a serving job is ready, and only while its queries commit what there is to commit: one that
has not for far longer than it usually takes is not ready, and says what it waits for.  A query
with nothing to read stays ready.  A job is alive as long as its queries advance: a batch was
finished, a trigger found nothing new, a query waits for its turn, or the broker is away (starting
the driver again would not bring it back).  A restore takes as long as it takes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from holdfast.types.ids import Place

__all__ = ["Health", "Level"]

_SLACK_S = 60.0
# A steady producer is always a batch ahead: level with what was there so long ago is level.
_LEVEL_S = 15.0
# A commit is late when it takes so many times as long as most do, but never before `_LATE_MIN_S`;
# and after `task.timeout.ms` at the latest.
_LATE_FACTOR = 10
_LATE_MIN_S = 60.0
_PACES, _PACES_MIN = 21, 5  # commits that the usual time is taken of
_MAIN_LOOP = "the driver's main loop"


@dataclass(frozen=True)
class Level:
    """How far a query is behind its source, in offsets over all topic partitions."""

    lag: int
    caught_up: bool


@dataclass
class _Pace:
    """How long a query takes to commit what there is.

    Attributes:
        done: what it had committed when it was looked at last.
        since: from when on there was something to commit; None: there is nothing.
        took_s: the last commits, each from when there was something.
        waits_for: why its batch is being tried again; empty: it is not.
    """

    done: Mapping[Place, int]
    since: float | None = None
    took_s: deque[float] = field(default_factory=lambda: deque(maxlen=_PACES))
    waits_for: str = ""

    def move(self, now: float, done: Mapping[Place, int], *, behind: bool) -> None:
        """It was looked at: it has committed so far, and is behind or not."""
        if done != self.done:
            if self.since is not None:
                self.took_s.append(now - self.since)
            self.done, self.since = done, None
        if not behind:
            self.since = None
        elif self.since is None:
            self.since = now

    def late_after_s(self, timeout_s: float) -> float:
        """How long it may take until it counts as late."""
        if len(self.took_s) >= _PACES_MIN:
            timeout_s = min(timeout_s, _LATE_FACTOR * median(self.took_s))
        return max(_LATE_MIN_S, timeout_s)


class Health:
    """Owns the signs of life and the lags of one job.  Safe to use from several threads.

    Args:
        query_ids: of all queries of the job.
        retry_timeout_s: how long a failing batch is tried again before the job gives up itself.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        query_ids: Iterable[str],
        retry_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._query_ids = tuple(query_ids)
        self._timeout_s = retry_timeout_s
        self._limit_s = retry_timeout_s + _SLACK_S
        self._clock = clock
        self._lock = threading.Lock()
        self._phase = "starting Spark"
        self._signs: dict[str, float] = {}
        self._levels: dict[str, Level] = {}
        self._paces: dict[str, _Pace] = {}
        self._ends: dict[str, list[tuple[float, Mapping[Place, int]]]] = {}

    def phase(self, text: str) -> None:
        """The job does `text` now, and is not ready meanwhile."""
        with self._lock:
            self._phase = text

    def serving(self) -> None:
        """Stores are restored and streams started: ready, and from now on queries must advance."""
        with self._lock:
            self._phase = ""
            self._paces = {}
            self._signs = dict.fromkeys((*self._query_ids, _MAIN_LOOP), self._clock())

    def beat(self, query_id: str) -> None:
        """The query shows a sign of life."""
        with self._lock:
            self._signs[query_id] = self._clock()

    def turned(self) -> None:
        """The driver's main loop does."""
        self.beat(_MAIN_LOOP)

    def beat_all(self) -> None:
        """No query can advance, and none is to blame."""
        for query_id in self._query_ids:
            self.beat(query_id)

    def rest(self, query_id: str) -> None:
        """The query was told to commit nothing for now."""
        self.beat(query_id)
        with self._lock:
            self._paces.pop(query_id, None)

    def observe(
        self,
        query_id: str,
        done: Mapping[Place, int],
        ends: Mapping[Place, int],
        waits_for: str = "",
    ) -> Level:
        """Compares what a query has committed with its topic; offsets by topic partition.

        Args:
            waits_for: why its batch is being tried again; empty: it is not.
        """
        now = self._clock()
        with self._lock:
            seen = [*self._ends.get(query_id, []), (now, ends)]
            # The newest of those old enough, and everything since.
            old = [at for at, _ in seen if at <= now - _LEVEL_S]
            seen = [pair for pair in seen if not old or pair[0] >= old[-1]]
            self._ends[query_id] = seen
            level = Level(_behind(done, ends), _behind(done, seen[0][1]) == 0)
            self._levels[query_id] = level
            pace = self._paces.setdefault(query_id, _Pace(done))
            pace.waits_for = waits_for
            pace.move(now, done, behind=level.lag > 0)
            return level

    def level(self, query_id: str) -> Level | None:
        """What was observed last; None before the first time."""
        with self._lock:
            return self._levels.get(query_id)

    def why_not_ready(self) -> str:
        """Empty when the job is ready."""
        with self._lock:
            if self._phase:
                return self._phase
            now = self._clock()
            late = [self._why_late(name, pace, now) for name, pace in sorted(self._paces.items())]
        return "; ".join(filter(None, late))

    def _why_late(self, query_id: str, pace: _Pace, now: float) -> str:
        since_s = now - pace.since if pace.since is not None else 0.0
        if since_s <= pace.late_after_s(self._timeout_s):
            return ""
        told = f"{query_id} has committed nothing for {since_s:.0f} s"
        if query_id in self._levels:
            told += f" and is {self._levels[query_id].lag} offsets behind"
        return told + (f"; it waits for: {pace.waits_for}" if pace.waits_for else "")

    def why_not_live(self) -> str:
        """Empty when the job lives; a job that is not serving yet, or stops, does."""
        with self._lock:
            if self._phase:
                return ""
            now = self._clock()
            silent = {name: now - at for name, at in self._signs.items()}
        return "; ".join(
            f"{name} has shown no sign of life for {seconds:.0f} s"
            for name, seconds in sorted(silent.items())
            if seconds > self._limit_s
        )


def _behind(done: Mapping[Place, int], ends: Mapping[Place, int]) -> int:
    return sum(max(0, end - done.get(p, 0)) for p, end in ends.items())
