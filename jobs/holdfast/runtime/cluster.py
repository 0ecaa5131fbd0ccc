"""Live executors, their volumes, and where each query's state partitions are."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from pyspark import SparkContext

from holdfast.config.settings import Settings
from holdfast.errors import ExecutorsMissing, HoldfastError
from holdfast.runtime.jvm.descriptions import stage
from holdfast.runtime.jvm.spark_internals import Executor, executors, located, on_state_workers
from holdfast.runtime.placement import assign
from holdfast.tasks.plan import StoreSurvey, TaskReport, Whereabouts
from holdfast.tasks.worker import survey

__all__ = ["Cluster", "answers_of"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.2
_SURVEYS_MAX = 5


class Cluster:
    """Owns the assignment (state partition -> volume) and the executor of each volume.

    Safe to use from several queries' threads.
    """

    def __init__(self, context: SparkContext, settings: Settings, state_dir: str) -> None:
        self._context = context
        self._settings = settings
        self._state_dir = state_dir
        self._lock = threading.RLock()
        self._known: list[Executor] = []
        self._surveys: dict[int, StoreSurvey] = {}  # by volume
        self._executors: dict[int, Executor] = {}  # by volume
        self._assignments: dict[str, dict[int, int]] = {}  # query id -> partition -> volume
        self._stale = True
        self._waits_for: dict[str, str] = {}  # by query id

    def invalidate(self) -> None:
        """Makes the next `placement` survey the executors again."""
        with self._lock:
            self._stale = True

    def placement(self, query_id: str) -> dict[int, tuple[int, str]]:
        """State partition -> (volume, Spark location) among the executors alive now.

        If an executor is missing whose stores are more than `acceptable.recovery.lag` ahead of
        all others, waits up to `placement.wait` for it: it returns with its volume sooner than the
        stores could be restored.  Stores with a smaller lead move at once.
        """
        with self._lock:
            self._refresh(query_id)
            volumes = {
                v: {p: at for (q, p), at in s.positions.items() if q == query_id}
                for v, s in self._surveys.items()
            }
            previous = self._assignments.get(query_id, {})
            assignment = assign(self._settings.state.partitions, volumes, previous)
            moved = {p: v for p, v in assignment.items() if previous.get(p, v) != v}
            if moved:
                _LOG.info("%s: state partitions moved to volumes %s", query_id, moved)
            self._assignments[query_id] = assignment
            return {p: (v, self._executors[v].location) for p, v in assignment.items()}

    def locations(self) -> list[str]:
        """Spark locations of all live executors, for work without a store."""
        with self._lock:
            self._refresh(None)
            return [e.location for e in self._executors.values()]

    def whereabouts(self) -> list[Whereabouts]:
        """Every executor that answered the last survey."""
        with self._lock:
            return [s.where for _, s in sorted(self._surveys.items())]

    def observe(self, query_id: str, reports: Iterable[TaskReport]) -> None:
        """Records the changelog position of each store."""
        with self._lock:
            for report in reports:
                known = self._surveys.get(report.where.volume)
                if known is not None:
                    known.positions[(query_id, report.partition)] = report.position

    def waits(self, query_id: str, errors: Sequence[HoldfastError]) -> None:
        """Records why a batch of the query is retried; without errors it is not.

        Every state partition reports its own error; the first one stands for all.
        """
        with self._lock:
            self._waits_for[query_id] = errors[0].fact if errors else ""

    def waits_for(self, query_id: str) -> str:
        """Why the query's current batch is being retried; empty: it is not."""
        with self._lock:
            return self._waits_for.get(query_id, "")

    def _refresh(self, query_id: str | None) -> None:
        alive = executors(self._context)
        if alive == self._known and not self._stale and self._surveys:
            return
        if not alive or not self._surveys or self._worth_waiting(query_id, alive):
            self._await_executors()
        self._survey()

    def _worth_waiting(self, query_id: str | None, alive: list[Executor]) -> bool:
        """Whether a store of the query on a missing volume would take long to restore."""
        here = [v for v, e in self._executors.items() if e in alive]
        for partition, volume in self._assignments.get(query_id or "", {}).items():
            if volume not in here:
                lost = self._position(volume, query_id, partition)
                best = max((self._position(v, query_id, partition) for v in here), default=0)
                if lost - best > self._settings.state.acceptable_recovery_lag:
                    return True
        return False

    def _position(self, volume: int, query_id: str | None, partition: int) -> int:
        survey = self._surveys.get(volume)
        return survey.positions.get((query_id or "", partition), 0) if survey else 0

    def _await_executors(self) -> None:
        expected = self._settings.placement.executors
        deadline = time.monotonic() + self._settings.placement.wait_ms / 1000
        started = time.monotonic()
        while len(executors(self._context)) < expected and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        waited = time.monotonic() - started
        if waited > _POLL_S:
            alive = len(executors(self._context))
            _LOG.info("Waited %.1f s for executors: %d of %d are here", waited, alive, expected)

    def _survey(self) -> None:
        for _ in range(_SURVEYS_MAX):
            alive = executors(self._context)
            found = answers_of(alive, self._ask(alive)) if alive else {}
            if alive and len(found) == len(alive):
                self._surveys = {s.where.volume: s for s in found.values()}
                self._executors = {s.where.volume: e for e, s in found.items()}
                self._known, self._stale = alive, False
                return
            time.sleep(_POLL_S)
        raise ExecutorsMissing(
            f"{len(alive)} executors are alive, not all of them answer "
            f"({self._settings.placement.executors} expected).",
            cause="executors are starting, or were just killed",
            action="wait; look at the executors' logs if it lasts",
        )

    def _ask(self, alive: list[Executor]) -> list[StoreSurvey]:
        ask = partial(
            _survey_partition,
            state_dir=self._state_dir,
            executors=self._settings.placement.executors,
            application_id=self._settings.application_id,
        )
        stage(self._context, "ask the executors for their stores")
        rdd = located(self._context, [e.location for e in alive])
        return on_state_workers(rdd, ask, range(len(alive)))


def answers_of(
    alive: Sequence[Executor], answers: Iterable[StoreSurvey]
) -> dict[Executor, StoreSurvey]:
    """Answers by executor; executors are known by id, on Kubernetes by their pods' addresses."""
    by_id = {s.where.executor_id: s for s in answers}
    by_host = {s.where.host: s for s in by_id.values() if s.where.host}
    found = ((e, by_id.get(e.id) or by_host.get(e.host)) for e in alive)
    return {executor: survey for executor, survey in found if survey is not None}


def _survey_partition(
    _index: int, elements: Iterable[int], *, state_dir: str, executors: int, application_id: str
) -> Iterator[StoreSurvey]:
    for _ in elements:
        yield survey(state_dir, executors, application_id)
