"""The driver's view of its executors, and what it decides when they come and go."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.config.settings import PlacementSettings, Settings, StateSettings
from holdfast.errors import ExecutorsMissing
from holdfast.runtime import cluster as cluster_module
from holdfast.runtime.cluster import Cluster, answers_of
from holdfast.runtime.jvm.spark_internals import Executor
from holdfast.tasks.plan import (
    QueryPlan,
    StandbyDuties,
    StandbyReport,
    StandbyState,
    StoreSurvey,
    Whereabouts,
)
from tests.simulation.jobs.one_table import query


def _survey(name: str, volume: int, host: str = "") -> StoreSurvey:
    return StoreSurvey(Whereabouts(name, volume, 1, 2, host), {})


def test_local_executors_are_known_by_their_id() -> None:
    alive = [Executor("0", "127.0.0.1"), Executor("1", "127.0.0.1")]
    first, second = _survey("1", 0), _survey("0", 1)
    assert answers_of(alive, [first, second]) == {alive[0]: second, alive[1]: first}


def test_pods_are_known_by_their_address() -> None:
    alive = [Executor("7", "10.0.0.5"), Executor("9", "10.0.0.4")]
    first, second = (
        _survey("job-executor-0", 0, "10.0.0.4"),
        _survey("job-executor-1", 1, "10.0.0.5"),
    )
    assert answers_of(alive, [first, second]) == {alive[0]: second, alive[1]: first}


def test_an_executor_that_did_not_answer_is_left_out() -> None:
    alive = [Executor("7", "10.0.0.5"), Executor("9", "10.0.0.4")]
    survey = _survey("job-executor-1", 1, "10.0.0.5")
    assert answers_of(alive, [survey]) == {alive[0]: survey}


@dataclass
class Machine:
    """Executors that hold stores, and what the driver's cluster asks of them.

    Attributes:
        stores: by volume, the changelog position of each state partition's store.
        lags: by volume, the lag of each standby; -1 where it is not named.
        homes: the volume of an executor whose volume has not its own number.
        surveyed: the executors that each survey asked.
    """

    stores: dict[int, dict[int, int]]
    lags: dict[int, dict[int, int]] = field(default_factory=dict)
    alive: list[int] = field(default_factory=lambda: [0, 1])
    workers: dict[int, int] = field(default_factory=dict)
    homes: dict[int, int] = field(default_factory=dict)
    surveyed: list[list[int]] = field(default_factory=list)
    ended: int = 0

    def ended_executors(self, _: object) -> int:
        return self.ended

    def executors(self, _: object) -> list[Executor]:
        return [Executor(str(v), "host") for v in self.alive]

    def located(self, _: object, locations: Sequence[str]) -> list[int]:
        return [int(location.rsplit("_", 1)[1]) for location in locations]

    def on_state_workers(
        self, volumes: list[int], work: partial[Any], partitions: Sequence[int]
    ) -> list[Any]:
        duties = work.keywords.get("duties")
        asked = [volumes[p] for p in partitions]
        if duties is None:
            self.surveyed.append(asked)
            return [self.survey(executor) for executor in asked]
        return [self.report(v, duties) for v in asked]

    def survey(self, executor: int) -> StoreSurvey:
        volume = self.homes.get(executor, executor)
        where = replace(self.where(volume), executor_id=str(executor))
        return StoreSurvey(where, self.positions(volume))

    def where(self, volume: int) -> Whereabouts:
        return Whereabouts(str(volume), volume, self.workers.get(volume, 1), 2)

    def positions(self, volume: int) -> dict[tuple[str, int], int]:
        return {("ctas_t", p): at for p, at in self.stores[volume].items()}

    def report(self, volume: int, duties: StandbyDuties) -> StandbyReport:
        lags = self.lags.get(volume, {})
        states = (
            StandbyState(q, p, self.stores[volume].get(p, 0), lags.get(p, -1))
            for q, p in sorted(duties.wanted.get(volume, ()))
        )
        return StandbyReport(self.where(volume), tuple(states))


WAIT_MS = 300


@pytest.fixture
def plan(tmp_path: Path) -> QueryPlan:
    placement = PlacementSettings(executors=2, standbys=1, wait_ms=WAIT_MS)
    state = StateSettings(partitions=2, acceptable_recovery_lag=10)
    settings = Settings("app", placement=placement, state=state)
    return QueryPlan(settings, query("t"), "changelog", "id", 1, str(tmp_path))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine({0: {0: 1_000, 1: 900}, 1: {1: 1_000, 0: 900}})
    for name in ("ended_executors", "executors", "located", "on_state_workers"):
        monkeypatch.setattr(cluster_module, name, getattr(made, name))
    monkeypatch.setattr(cluster_module, "stage", lambda *_: None)
    return made


@pytest.fixture
def cluster(plan: QueryPlan, machine: Machine) -> Cluster:
    """Every state partition is placed where its store is furthest."""
    made = Cluster(cast("Any", None), plan.settings, plan.state_dir)
    assert _volumes(made, plan) == {0: 0, 1: 1}
    return made


def _volumes(cluster: Cluster, plan: QueryPlan) -> dict[int, int]:
    return {p: assigned.volume for p, (assigned, _) in cluster.placement(plan).items()}


def _follow(cluster: Cluster, machine: Machine, lags: dict[int, dict[int, int]]) -> None:
    machine.lags = lags
    cluster.keep_standbys(cluster.duties())


def _timed(cluster: Cluster, plan: QueryPlan) -> tuple[dict[int, int], float]:
    began = time.monotonic()
    return _volumes(cluster, plan), (time.monotonic() - began) * 1000


def test_every_partition_has_a_standby_on_another_volume(
    cluster: Cluster, machine: Machine
) -> None:
    assert cluster.duties().wanted == {1: {("ctas_t", 0)}, 0: {("ctas_t", 1)}}
    assert cluster.duties().owned == {0: {("ctas_t", 0)}, 1: {("ctas_t", 1)}}
    assert cluster.changed.is_set()
    assert not cluster.at_rest()
    _follow(cluster, machine, {0: {1: 0}, 1: {0: 0}})
    assert cluster.at_rest()
    ((where, state),) = cluster.standbys()["ctas_t", 0]
    assert (where.volume, state.lag) == (1, 0)


def test_a_standby_that_follows_takes_over_without_a_wait(
    cluster: Cluster, plan: QueryPlan, machine: Machine
) -> None:
    _follow(cluster, machine, {0: {1: 0}, 1: {0: 40}})
    machine.alive = [1]
    volumes, waited_ms = _timed(cluster, plan)
    assert volumes == {0: 1, 1: 1}
    assert waited_ms < WAIT_MS / 2


@pytest.mark.parametrize("lags", [{}, {0: {1: 0}}])
def test_one_that_was_never_level_is_no_reason_not_to_wait(
    cluster: Cluster, plan: QueryPlan, machine: Machine, lags: dict[int, dict[int, int]]
) -> None:
    _follow(cluster, machine, lags)
    machine.alive = [1]
    _, waited_ms = _timed(cluster, plan)
    assert waited_ms >= WAIT_MS


def test_an_executor_that_came_back_empty_is_warmed_between_batches(
    cluster: Cluster, plan: QueryPlan, machine: Machine
) -> None:
    _follow(cluster, machine, {0: {1: 0}, 1: {0: 0}})
    machine.alive = [1]
    assert _volumes(cluster, plan) == {0: 1, 1: 1}
    machine.alive, machine.stores[0], machine.workers[0] = [0, 1], {}, 7
    cluster.look_again()
    assert _volumes(cluster, plan) == {0: 1, 1: 1}, "it has nothing yet"
    assert cluster.duties().wanted == {0: {("ctas_t", 0), ("ctas_t", 1)}}
    _follow(cluster, machine, {0: {0: 3, 1: 50_000}})
    assert _volumes(cluster, plan) == {0: 0, 1: 1}


def test_new_stores_in_a_database_are_warmed_by_those_who_will_own_them(
    plan: QueryPlan, machine: Machine
) -> None:
    state = replace(plan.settings.state, backend="remote")
    now = replace(plan, settings=replace(plan.settings, state=state))
    new = replace(now, generation=1)
    cluster = Cluster(cast("Any", None), now.settings, now.state_dir)
    former = cluster.duties().owned if _volumes(cluster, now) else {}
    cluster.warm(new)
    warmed = cluster.duties().wanted
    assert sorted(key for keys in warmed.values() for key in keys) == [
        ("ctas_t-g1", 0), ("ctas_t-g1", 1),
    ]  # fmt: skip
    assert not cluster.is_warm(new)
    _follow(cluster, machine, {v: {0: 0, 1: 3} for v in (0, 1)})
    assert cluster.is_warm(new)
    owners = _volumes(cluster, new)
    assert {v: {("ctas_t-g1", p)} for p, v in owners.items()} == warmed
    assert cluster.duties().wanted == {}, "an owner's store is not warmed"
    assert cluster.duties().owned == {v: former[v] | warmed[v] for v in (0, 1)}


def _numbers(cluster: Cluster, plan: QueryPlan) -> set[int]:
    return {assigned.placement.number for assigned, _ in cluster.placement(plan).values()}


def test_a_batch_after_a_move_has_a_later_placement_than_duties_before_it(
    plan: QueryPlan, machine: Machine
) -> None:
    cluster = Cluster(cast("Any", None), plan.settings, plan.state_dir)
    first = _numbers(cluster, plan)
    assert first == {cluster.duties().placement.number} == _numbers(cluster, plan)
    _follow(cluster, machine, {0: {1: 0}, 1: {0: 0}})
    before = cluster.duties().placement.number
    machine.alive = [1]
    assert min(_numbers(cluster, plan)) > before, "an executor was lost"
    cluster.warm(new := replace(plan, generation=1))
    before = cluster.duties().placement.number
    assert min(_numbers(cluster, new)) > before, "what was warmed has an owner"


def test_what_another_process_says_of_a_volume_is_not_believed(
    cluster: Cluster, machine: Machine
) -> None:
    machine.workers[1] = 7
    _follow(cluster, machine, {0: {1: 0}, 1: {0: 0}})
    assert [state.lag for _, state in cluster.standbys()["ctas_t", 0]] == [-1]
    before = len(machine.surveyed)
    cluster.look_again()
    assert len(machine.surveyed) == before + 1
    _follow(cluster, machine, {0: {1: 0}, 1: {0: 0}})
    assert [state.lag for _, state in cluster.standbys()["ctas_t", 0]] == [0]


def test_a_batch_waits_for_no_executor_that_has_never_answered(
    cluster: Cluster, plan: QueryPlan, machine: Machine
) -> None:
    """The replacement of a killed one needs seconds for its first answer."""
    _follow(cluster, machine, {0: {1: 0}, 1: {0: 40}})
    machine.alive, machine.stores[2] = [1, 2], {}
    cluster.changed.clear()
    assert _volumes(cluster, plan) == {0: 1, 1: 1}
    assert machine.surveyed == [[0, 1], [1]]
    assert cluster.changed.is_set(), "the keeper of the standbys greets it"
    assert "executor_host_2" not in cluster.locations()
    cluster.look_again()
    assert machine.surveyed[2:] == [[2], [1, 2]]
    assert "executor_host_2" in cluster.locations()
    assert _volumes(cluster, plan) == {0: 1, 1: 1}, "it has nothing yet"
    assert cluster.duties().wanted[2] == {("ctas_t", 0), ("ctas_t", 1)}


def test_new_executors_are_asked_if_the_missing_one_is_worth_a_wait(
    cluster: Cluster, plan: QueryPlan, machine: Machine
) -> None:
    machine.alive, machine.stores[2] = [1, 2], {}
    _volumes(cluster, plan)
    assert machine.surveyed == [[0, 1], [1, 2]]


def test_new_executors_are_asked_if_another_one_has_changed_its_volume(
    cluster: Cluster, plan: QueryPlan, machine: Machine
) -> None:
    """Its Python was started again and took the lost volume; a new executor has the warm one."""
    _follow(cluster, machine, {0: {1: 0}, 1: {0: 40}})
    machine.alive, machine.stores[0] = [1, 2], {}
    machine.homes = {1: 0, 2: 1}
    assert _volumes(cluster, plan) == {0: 1, 1: 1}
    assert machine.surveyed == [[0, 1], [1], [1, 2]]


def test_new_executors_are_asked_if_there_are_no_others(
    cluster: Cluster, plan: QueryPlan, machine: Machine
) -> None:
    machine.alive, machine.stores[2], machine.stores[3] = [2, 3], {}, {}
    _volumes(cluster, plan)
    assert machine.surveyed == [[0, 1], [2, 3]]


@pytest.mark.parametrize(("ended", "cause"), [(2, "just killed"), (3, "they end as they start")])
def test_executors_that_end_as_they_start_are_told(
    cluster: Cluster, machine: Machine, plan: QueryPlan, ended: int, cause: str
) -> None:
    machine.alive, machine.ended = [], ended
    with pytest.raises(ExecutorsMissing) as missing:
        cluster.placement(plan)
    assert f"{ended} have ended" in missing.value.fact
    assert missing.value.cause.endswith(cause)


def test_no_survey_while_executors_are_missing(cluster: Cluster, machine: Machine) -> None:
    machine.alive, before = [1], len(machine.surveyed)
    cluster.look_again()
    assert len(machine.surveyed) == before, "the next batch decides how long to wait for it"


def test_fewer_executors_than_before_are_enough_once_fewer_are_wanted(
    plan: QueryPlan, machine: Machine
) -> None:
    """`kubectl scale` while the job runs; the setting still says two."""
    wanted = [2]
    cluster = Cluster(cast("Any", None), plan.settings, plan.state_dir, lambda: wanted[0])
    assert _volumes(cluster, plan) == {0: 0, 1: 1}
    machine.alive = [0]
    cluster.look_again()
    assert len(machine.surveyed) == 1, "the other one may come back"
    wanted[0] = 1
    cluster.look_again()
    assert len(machine.surveyed) == 2
    volumes, waited_ms = _timed(cluster, plan)
    assert volumes == {0: 0, 1: 0}
    assert waited_ms < WAIT_MS


def test_an_executor_that_is_wanted_now_is_waited_for_at_the_start(
    plan: QueryPlan, machine: Machine
) -> None:
    cluster = Cluster(cast("Any", None), plan.settings, plan.state_dir, lambda: 3)
    _, waited_ms = _timed(cluster, plan)
    assert waited_ms >= WAIT_MS
