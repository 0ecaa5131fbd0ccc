"""Liveness and readiness of a job, for probes and people.

    starting Spark → preparing or restoring each query → starting the streams
    → serving → stopping

Only a serving job is ready, and only while its queries commit new records: if a commit takes far
longer than usual, or a query stands still, the job is not ready, and says what the query waits for.
A query without new records stays ready.  A job is alive while its queries advance: a batch has
finished, a trigger found no data, a query waits for the batch lock, or the broker is unavailable (a
restart of the driver would not help).  A restore has no time limit.
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
# A steady producer is always a batch ahead: level with the end of so long ago counts as level.
_LEVEL_S = 15.0
_STALE_S = 30.0  # the ends of topics are asked for every two seconds
# A commit is late if it takes this many times the usual time, but not before `_LATE_MIN_S`, and
# always after `task.timeout.ms`.
_LATE_FACTOR = 10
_LATE_MIN_S = 60.0
_PACES, _PACES_MIN = 21, 5  # the number of commits that define the usual time
_MAIN_LOOP = "the driver's main loop"


@dataclass(frozen=True)
class Level:
    """The lag of a query behind its source, in offsets over all topic partitions."""

    lag: int
    caught_up: bool


@dataclass
class _Pace:
    """How long a query takes to commit new records.

    Attributes:
        done: the committed offsets at the last observation.
        since: when there first were records to commit; None: there are none.
        took_s: the durations of the last commits, each from `since`.
        waits_for: why its batch is being retried; empty: it is not.
    """

    done: Mapping[Place, int]
    since: float | None = None
    took_s: deque[float] = field(default_factory=lambda: deque(maxlen=_PACES))
    waits_for: str = ""

    def move(self, now: float, done: Mapping[Place, int], *, behind: bool) -> None:
        """Takes in an observation: the committed offsets, and whether it is behind."""
        if done != self.done:
            if self.since is not None:
                self.took_s.append(now - self.since)
            self.done, self.since = done, None
        if not behind:
            self.since = None
        elif self.since is None:
            self.since = now

    def late_after_s(self, timeout_s: float) -> float:
        """The time after which a commit counts as late."""
        if len(self.took_s) >= _PACES_MIN:
            timeout_s = min(timeout_s, _LATE_FACTOR * median(self.took_s))
        return max(_LATE_MIN_S, timeout_s)


class Health:
    """Owns the signs of life and the lags of one job.  Safe to use from several threads.

    Args:
        query_ids: the ids of all queries of the job.
        retry_timeout_s: how long a failing batch is retried before the job itself gives up.
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
        self._seen_at: dict[str, float] = {}
        self._paces: dict[str, _Pace] = {}
        self._ends: dict[str, list[tuple[float, Mapping[Place, int]]]] = {}
        self._stuck: dict[str, str] = {}

    def phase(self, text: str) -> None:
        """Sets the current phase, during which the job is not ready."""
        with self._lock:
            self._phase = text

    def serving(self) -> None:
        """Makes the job ready: stores are restored, streams started, and queries must advance."""
        with self._lock:
            self._phase = ""
            self._paces = {}
            self._signs = dict.fromkeys((*self._query_ids, _MAIN_LOOP), self._clock())

    def beat(self, query_id: str) -> None:
        """Records a sign of life of the query."""
        with self._lock:
            self._signs[query_id] = self._clock()

    def turned(self) -> None:
        """Records a sign of life of the driver's main loop."""
        self.beat(_MAIN_LOOP)

    def beat_all(self) -> None:
        """Records a sign of life for all queries when none can advance for an outside reason."""
        for query_id in self._query_ids:
            self.beat(query_id)

    def rest(self, query_id: str) -> None:
        """Expects no commits of the query for now, because of an order."""
        self.beat(query_id)
        with self._lock:
            self._paces.pop(query_id, None)

    def stuck(self, query_id: str, why: str) -> None:
        """Records that a query stands still while the others go on; empty: it goes on again."""
        self.rest(query_id)
        with self._lock:
            if why:
                self._stuck[query_id] = why
            else:
                self._stuck.pop(query_id, None)

    def observe(
        self,
        query_id: str,
        done: Mapping[Place, int],
        ends: Mapping[Place, int],
        waits_for: str = "",
    ) -> Level:
        """Compares what a query has committed with its topic; offsets by topic partition.

        Args:
            waits_for: why its batch is being retried; empty: it is not.
        """
        now = self._clock()
        with self._lock:
            seen = [*self._ends.get(query_id, []), (now, ends)]
            # The newest one that is old enough, and all after it.
            old = [at for at, _ in seen if at <= now - _LEVEL_S]
            seen = [pair for pair in seen if not old or pair[0] >= old[-1]]
            self._ends[query_id] = seen
            level = Level(_behind(done, ends), _behind(done, seen[0][1]) == 0)
            self._levels[query_id], self._seen_at[query_id] = level, now
            pace = self._paces.setdefault(query_id, _Pace(done))
            pace.waits_for = waits_for
            pace.move(now, done, behind=level.lag > 0)
            return level

    def level(self, query_id: str) -> Level | None:
        """The lag as observed lately; None before that, and when Kafka has become silent."""
        with self._lock:
            return None if self._silent_s(query_id) else self._levels.get(query_id)

    def why_unknown(self) -> str:
        """Why lags are unknown although they were observed before; empty if they are not."""
        with self._lock:
            silent_s = max(map(self._silent_s, self._seen_at), default=0.0)
        if not silent_s:
            return ""
        return f"Kafka has not told the ends of the source topics for {silent_s:.0f} s"

    def _silent_s(self, query_id: str) -> float:
        """Seconds since the query's last observation; 0 while that is recent."""
        age_s = self._clock() - self._seen_at.get(query_id, self._clock())
        return age_s if age_s > _STALE_S else 0.0

    def why_not_ready(self) -> str:
        """Why the job is not ready; empty if it is."""
        with self._lock:
            if self._phase:
                return self._phase
            now = self._clock()
            stuck = [f"{name} stands still: {why}" for name, why in sorted(self._stuck.items())]
            late = [self._why_late(name, pace, now) for name, pace in sorted(self._paces.items())
                    if name not in self._stuck]  # fmt: skip
        return "; ".join(filter(None, [*stuck, *late]))

    def _why_late(self, query_id: str, pace: _Pace, now: float) -> str:
        since_s = now - pace.since if pace.since is not None else 0.0
        if since_s <= pace.late_after_s(self._timeout_s):
            return ""
        told = f"{query_id} has committed nothing for {since_s:.0f} s"
        if query_id in self._levels:
            told += f" and is {self._levels[query_id].lag} offsets behind"
        return told + (f"; it waits for: {pace.waits_for}" if pace.waits_for else "")

    def why_not_live(self) -> str:
        """Why the job is not alive; empty if it is, and before and after serving."""
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
