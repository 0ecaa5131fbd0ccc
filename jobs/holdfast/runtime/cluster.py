"""Live executors, their volumes, and where each query's state partitions are."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark import SparkContext

from holdfast.config.settings import Settings
from holdfast.errors import ExecutorsMissing, HoldfastError
from holdfast.runtime.jvm.descriptions import stage
from holdfast.runtime.jvm.spark_internals import (
    Executor,
    ended_executors,
    executors,
    located,
    on_state_workers,
)
from holdfast.runtime.placement import Goal, Placement, Stores, placed
from holdfast.tasks.plan import (
    Assigned,
    PlacementId,
    QueryPlan,
    StandbyDuties,
    StandbyReport,
    StandbyState,
    StoreSurvey,
    TaskReport,
    Whereabouts,
)
from holdfast.tasks.worker import keep_standbys, survey

__all__ = ["Cluster", "StandbysByKey", "answers_of"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.2
_SURVEYS_MAX = 5
_Key = tuple[str, int]  # `QueryPlan.state_name`, state partition
# By query id and state partition.
StandbysByKey = Mapping[tuple[str, int], Sequence[tuple[Whereabouts, StandbyState]]]


class Cluster:
    """Owns the placement of every query and the executor of each volume.

    Safe to use from several queries' threads.

    Args:
        expected: tells how many executors there shall be; None: the setting `executors`.

    Attributes:
        changed: set when executors should keep other stores than before; whoever tells them
            clears it.
    """

    def __init__(
        self,
        context: SparkContext,
        settings: Settings,
        state_dir: str,
        expected: Callable[[], int] | None = None,
    ) -> None:
        self._context = context
        self._expected = expected or (lambda: settings.placement.executors)
        self._settings = settings
        self._state_dir = state_dir
        self._lock = threading.RLock()
        self._known: list[Executor] = []
        self._answered: set[Executor] = set()  # those that have ever answered
        self._surveys: dict[int, StoreSurvey] = {}  # by volume
        self._executors: dict[int, Executor] = {}  # by volume
        self._standbys: dict[int, dict[_Key, StandbyState]] = {}  # by volume, as last reported
        self._ends: dict[_Key, int] = {}  # the furthest changelog position known
        self._plans: dict[str, QueryPlan] = {}  # by state name
        self._placements: dict[str, Placement] = {}  # by state name
        self._placement = PlacementId(secrets.token_hex(4))
        self._warming: set[str] = set()  # names of states that no task keeps yet
        self._stale = True
        self._waits_for: dict[str, str] = {}  # by query id
        self.changed = threading.Event()

    def invalidate(self) -> None:
        """Makes the next `placement` survey the executors again."""
        with self._lock:
            self._stale = True

    def placement(self, plan: QueryPlan) -> dict[int, tuple[Assigned, str]]:
        """Where each state partition is, and the Spark location, among the executors alive now.

        If an executor is missing whose stores are more than `acceptable.recovery.lag` ahead of
        all others, waits up to `placement.wait` for it: it returns with its volume sooner than the
        stores could be restored.  Stores with a smaller lead, or with a standby, move at once.
        """
        name = plan.state_name
        with self._lock:
            self._refresh(name)
            known, self._plans[name] = self._plans.get(name), plan
            if name in self._warming:
                self._warming.discard(name)
                self._moved()
            if known is None:
                self._place(plan)
            return {
                p: (self._assigned(v, (name, p)), self._executors[v].location)
                for p, v in self._placements[name].owners.items()
            }

    def warm(self, plan: QueryPlan) -> None:
        """Places a state that no task keeps yet; until `placement` its owners are standbys.

        Raises:
            ExecutorsMissing: not all of the executors answer.
        """
        with self._lock:
            self._refresh(None)
            self._warming.add(plan.state_name)
            self._plans[plan.state_name] = plan
            self._place(plan)

    def is_warm(self, plan: QueryPlan) -> bool:
        """Whether the stores of a state that is warmed lack little."""
        name, enough = plan.state_name, plan.settings.state.acceptable_recovery_lag
        with self._lock:
            owners = self._placements.get(name, Placement()).owners
            return bool(owners) and all(
                self._follows(v, (name, p)) and self._state(v, (name, p)).lag <= enough
                for p, v in owners.items()
            )

    def forget(self, plan: QueryPlan) -> None:
        """Has executors keep nothing of a state any more; its stores are spare."""
        with self._lock:
            name = plan.state_name
            self._warming.discard(name)
            self._plans.pop(name, None)
            self._placements.pop(name, None)
            self.changed.set()

    def look_again(self) -> None:
        """Surveys the executors if some came or went, and places all state partitions again.

        Does nothing while executors are missing: the next batch decides how long to wait for them.

        Raises:
            ExecutorsMissing: not all of the executors answer.
        """
        self._greet()
        with self._lock:
            ready = self._ready(executors(self._context))
            changed = ready != self._known or self._stale
            if self._surveys and changed and len(ready) >= self._expected():
                self._survey(self._ready)

    def duties(self) -> StandbyDuties:
        """The stores to be kept now."""
        with self._lock:
            wanted = [
                (volume, (name, partition))
                for name, placement in self._placements.items()
                for partition, volumes in placement.standbys.items()
                for volume in volumes
            ]
            owned: list[tuple[int, _Key]] = []
            for name, placement in self._placements.items():
                keep = wanted if name in self._warming else owned
                keep += [(volume, (name, p)) for p, volume in placement.owners.items()]
            both = _by_volume(wanted), _by_volume(owned)
            return StandbyDuties(dict(self._plans), *both, self._placement)

    def keep_standbys(self, duties: StandbyDuties) -> None:
        """Has the executors keep these standbys; their answers may move state partitions.

        Raises:
            HoldfastError: an executor cannot use its volume.
        """
        ask = partial(
            _keep_partition,
            duties=duties,
            state_dir=self._state_dir,
            executors=self._settings.placement.executors,
            application_id=self._settings.application_id,
        )
        with self._lock:
            alive = list(self._executors.values())
        stage(self._context, "keep the standbys")
        rdd = located(self._context, [e.location for e in alive])
        reports: list[StandbyReport] = on_state_workers(rdd, ask, range(len(alive)))
        self._observe_standbys(reports)

    def _observe_standbys(self, reports: Iterable[StandbyReport]) -> None:
        """Records the lag of each standby, and places all state partitions again."""
        with self._lock:
            for report in reports:
                volume = report.where.volume
                known = self._surveys.get(volume)
                if known is None or known.where != report.where:
                    self._stale = True  # another process has the volume since the survey
                    continue
                found = {(s.state_name, s.partition): s for s in report.standbys}
                self._standbys[volume] = found
                known.positions.update({key: s.position for key, s in found.items()})
            self._place_all()

    def at_rest(self) -> bool:
        """Whether every state partition is where it shall stay, and all standbys follow."""
        with self._lock:
            return not self._warming and all(
                p.owners == p.shares
                and all(self._follows(v, (name, n)) for n, vs in p.standbys.items() for v in vs)
                for name, p in self._placements.items()
            )

    def standbys(self) -> StandbysByKey:
        """The standbys of each state partition, by (query id, state partition)."""
        with self._lock:
            found: dict[tuple[str, int], list[tuple[Whereabouts, StandbyState]]] = {}
            for name, placement in self._placements.items():
                if name in self._warming:
                    continue
                for partition, volumes in placement.standbys.items():
                    key = name, partition
                    found[self._plans[name].query.id, partition] = [
                        (self._surveys[v].where, self._state(v, key))
                        for v in volumes
                        if v in self._surveys
                    ]
            return found

    def locations(self) -> list[str]:
        """Spark locations of all live executors, for work without a store."""
        with self._lock:
            self._refresh(None)
            return [e.location for e in self._executors.values()]

    def whereabouts(self) -> list[Whereabouts]:
        """Every executor that answered the last survey."""
        with self._lock:
            return [s.where for _, s in sorted(self._surveys.items())]

    def observe(self, plan: QueryPlan, reports: Iterable[TaskReport]) -> None:
        """Records the changelog position of each store."""
        with self._lock:
            for report in reports:
                known = self._surveys.get(report.where.volume)
                key = plan.state_name, report.partition
                if known is not None:
                    known.positions[key] = report.position
                    self._ends[key] = max(self._ends.get(key, 0), report.position)

    def waits(self, query_id: str, errors: Sequence[HoldfastError]) -> None:
        """Records why a batch of the query is retried; without errors it is not.

        Every state partition reports its own error; the first one stands for all.
        """
        self._waits_for[query_id] = errors[0].fact if errors else ""

    def waits_for(self, query_id: str) -> str:
        """Why the query's current batch is being retried; empty: it is not.

        It answers at once, while a survey has the lock as well.
        """
        return self._waits_for.get(query_id, "")

    def _greet(self) -> None:
        """Has new executors answer for the first time, which takes them seconds.

        It holds no lock meanwhile: no batch waits for them.
        """
        with self._lock:
            alive = executors(self._context)
            self._answered.intersection_update(alive)
            new = [e for e in alive if e not in self._answered]
            if not self._surveys or not new:
                return
        found = answers_of(new, self._ask(new))
        with self._lock:
            self._answered.update(found)

    def _ready(self, alive: list[Executor]) -> list[Executor]:
        """Those that have answered before, and so answer at once; all, if none has."""
        return [e for e in alive if e in self._answered] or alive

    def _refresh(self, name: str | None) -> None:
        alive = executors(self._context)
        ready = self._ready(alive)
        if ready != alive:
            self.changed.set()  # the others are greeted soon
        if ready == self._known and not self._stale and self._surveys:
            return
        if not alive or not self._surveys or self._worth_waiting(name, ready):
            self._await_executors()
            self._survey(_everyone)
        else:
            self._survey(self._ready)

    def _worth_waiting(self, name: str | None, alive: list[Executor]) -> bool:
        """Whether a store of the state on a missing volume would take long to restore."""
        if self._settings.state.backend == "remote":
            return False
        known = self._placements.get(name or "", Placement())
        here = [v for v, e in self._executors.items() if e in alive]
        for partition, volume in known.owners.items():
            key = name or "", partition
            if volume in here or any(self._follows(v, key) for v in here):
                continue
            lost = self._position(volume, key)
            best = max((self._position(v, key) for v in here), default=0)
            if lost - best > self._settings.state.acceptable_recovery_lag:
                return True
        return False

    def _moved(self) -> None:
        self._placement = replace(self._placement, number=self._placement.number + 1)
        self.changed.set()

    def _assigned(self, volume: int, key: _Key) -> Assigned:
        return Assigned(volume, self._position(volume, key), self._placement)

    def _position(self, volume: int, key: _Key) -> int:
        survey = self._surveys.get(volume)
        return survey.positions.get(key, 0) if survey else 0

    def _state(self, volume: int, key: _Key) -> StandbyState:
        """The standby as its executor last reported it; with lag -1 if it has not."""
        return self._standbys.get(volume, {}).get(key, StandbyState(*key))

    def _follows(self, volume: int, key: _Key) -> bool:
        """Whether a standby there has been level with its changelog, and goes on."""
        told = self._state(volume, key)
        return told.lag >= 0 and not told.error

    def _lag(self, volume: int, key: _Key) -> int:
        """Changelog records that a store lacked when it was last heard of."""
        if self._follows(volume, key):
            return self._state(volume, key).lag
        return max(0, self._ends.get(key, 0) - self._position(volume, key))

    def _place_all(self) -> None:
        for plan in self._plans.values():
            self._place(plan)

    def _place(self, plan: QueryPlan) -> None:
        name, settings = plan.state_name, plan.settings
        goal = Goal(
            plan.state_partitions,
            settings.placement.standbys,
            settings.state.acceptable_recovery_lag,
            settings.placement.keep,
            copies=settings.state.on_volumes,
        )
        keys = [(name, p) for p in range(plan.state_partitions)]
        for key in keys:
            furthest = max(self._position(v, key) for v in self._surveys)
            self._ends[key] = max(self._ends.get(key, 0), furthest)
        volumes = {
            v: Stores({key[1]: self._lag(v, key) for key in keys}, s.where.node)
            for v, s in self._surveys.items()
        }
        last = self._placements.get(name, Placement())
        new = self._placements[name] = placed(goal, volumes, last)
        moved = {p: v for p, v in new.owners.items() if last.owners.get(p, v) != v}
        if moved:
            _LOG.info("%s: state partitions moved to volumes %s", name, moved)
        for partition, volume in new.owners.items() if name not in self._warming else ():
            self._standbys.get(volume, {}).pop((name, partition), None)
        if (new.standbys, new.owners) != (last.standbys, last.owners):
            self._moved()

    def _await_executors(self) -> None:
        deadline = time.monotonic() + self._settings.placement.wait_ms / 1000
        started = time.monotonic()
        while (
            len(executors(self._context)) < (expected := self._expected())
            and time.monotonic() < deadline
        ):
            time.sleep(_POLL_S)
        waited = time.monotonic() - started
        if waited > _POLL_S:
            alive = len(executors(self._context))
            _LOG.info("Waited %.1f s for executors: %d of %d are here", waited, alive, expected)

    def _survey(self, choose: Callable[[list[Executor]], list[Executor]]) -> None:
        """Asks those of the live executors that are chosen; all, if one has changed its volume.

        Raises:
            ExecutorsMissing: not all of them answer.
        """
        for _ in range(_SURVEYS_MAX):
            alive = choose(executors(self._context))
            found = answers_of(alive, self._ask(alive)) if alive else {}
            if choose is not _everyone and self._changed_volumes(found):
                choose = _everyone  # a new one may have its former volume, with the warm stores
                continue
            if alive and len(found) == len(alive):
                self._surveyed(found)
                self._known, self._stale = alive, False
                return
            time.sleep(_POLL_S)
        expected, ended = self._expected(), ended_executors(self._context)
        raise ExecutorsMissing(
            f"{len(alive)} executors are alive, not all of them answer ({expected} expected); "
            f"{ended} have ended since the driver's start.",
            cause="executors are starting, or were just killed; or they end as they start"
            if ended > expected
            else "executors are starting, or were just killed",
            action="wait; if it lasts, look at the executors' logs, those of a local job are in "
            "spark/work of its home",
        )

    def _changed_volumes(self, found: Mapping[Executor, StoreSurvey]) -> bool:
        """Whether an executor has another volume than before: its Python was started again."""
        before = {executor: volume for volume, executor in self._executors.items()}
        return any(before.get(e, s.where.volume) != s.where.volume for e, s in found.items())

    def _surveyed(self, found: Mapping[Executor, StoreSurvey]) -> None:
        before = {v: s.where for v, s in self._surveys.items()}
        self._surveys = {s.where.volume: s for s in found.values()}
        self._executors = {s.where.volume: e for e, s in found.items()}
        self._answered.update(found)
        same = {v for v, s in self._surveys.items() if before.get(v) == s.where}
        self._standbys = {v: states for v, states in self._standbys.items() if v in same}
        self._place_all()
        self.changed.set()

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


def _everyone(alive: list[Executor]) -> list[Executor]:
    return alive


def _by_volume(pairs: Iterable[tuple[int, _Key]]) -> dict[int, frozenset[_Key]]:
    found: dict[int, set[_Key]] = {}
    for volume, key in pairs:
        found.setdefault(volume, set()).add(key)
    return {volume: frozenset(keys) for volume, keys in found.items()}


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


def _keep_partition(
    _index: int,
    elements: Iterable[int],
    *,
    duties: StandbyDuties,
    state_dir: str,
    executors: int,
    application_id: str,
) -> Iterator[StandbyReport]:
    for _ in elements:
        yield keep_standbys(duties, state_dir, executors, application_id)
