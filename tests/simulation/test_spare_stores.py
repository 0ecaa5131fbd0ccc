"""An executor keeps, follows and deletes the stores on its volume as the driver wishes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.tasks import worker
from holdfast.tasks.plan import (
    Assigned,
    Batch,
    PlacementId,
    QueryPlan,
    StandbyDuties,
    StandbyState,
    TaskReport,
)
from holdfast.types.ids import OffsetRange, changelog_topic
from tests.simulation.fakes.executors import Bench
from tests.simulation.jobs.payloads import payloads
from tests.simulation.jobs.statements import topology


class Stage:
    """One state partition, whose store executor 0 has opened, and its driver's wishes."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        query = topology("totals").queries[0]
        self.key = query.id, 0
        settings = bench.settings
        self.delay_s = settings.state.cleanup_delay_ms / 1000
        changelog = changelog_topic(settings.application_id, query.id)
        topic = bench.kafka.make_topic(changelog, 1, {})
        bench.kafka.make_topic(query.sink.topic, 1, {})
        log = bench.kafka.make_topic("s", 1, {}).logs[0]
        for _ in range(3):
            log.append(b"k", b'{"v": 1, "ts": 1000}', 1000)
        self.plan = QueryPlan(settings, query, changelog, topic.topic_id, 1, "state")
        bench.on(0)
        self.apply(0)

    def apply(self, batch: int, placement: int = 0) -> None:
        source = OffsetRange.of("s", {0: batch}, {0: batch + 1})
        (payload,) = payloads(self.bench.settings, self.plan.query, source, 1)
        assigned = Assigned(self.bench.ordinal, placement=PlacementId("d", placement))
        answer = worker.process_partition(self.plan, 0, assigned, Batch(batch, source), payload)
        assert isinstance(answer, TaskReport), answer

    def wish(
        self, *, owner: int | None = None, standby: int | None = None, placement: int = 0
    ) -> StandbyState | None:
        """Tells the running executor, lets it restore and delete, and returns its standby."""
        wanted, owned = ({} if v is None else {v: frozenset({self.key})} for v in (standby, owner))
        plans, number = {self.key[0]: self.plan}, PlacementId("d", placement)
        duties = StandbyDuties(plans, wanted, owned, number)
        worker.keep_standbys(duties, "state", 2, self.bench.settings.application_id)
        worker._standbys.turn()
        return next(iter(worker._standbys.states()), None)

    @property
    def held(self) -> bool:
        """Whether the running executor's volume has the store."""
        volume = worker._volume("state", 2)
        return (self.bench.settings.application_id, *self.key) in volume.stores()

    @property
    def opened(self) -> bool:
        """Whether the running executor has a state task of it."""
        return bool(worker._state_tasks)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        yield Stage(Bench(patch))


def test_an_owner_keeps_its_task_and_its_store(stage: Stage) -> None:
    for _ in range(2):
        assert stage.wish(owner=0) is None
        stage.bench.clock.sleep(2 * stage.delay_s)
    assert stage.opened
    assert stage.held


def test_a_former_owner_closes_its_task_and_follows(stage: Stage) -> None:
    found = stage.wish(owner=1, standby=0)
    assert not stage.opened
    assert found is not None
    assert (found.lag, found.error) == (0, "")
    stage.bench.on(1)
    stage.apply(1)
    stage.bench.on(0)
    again = stage.wish(owner=1, standby=0)
    assert again is not None
    assert (again.lag, again.position > found.position) == (0, True)


def test_a_store_that_nobody_wants_is_deleted_after_a_while(stage: Stage) -> None:
    stage.wish(owner=1)
    stage.bench.clock.sleep(stage.delay_s - 1)
    stage.wish(owner=1)
    assert stage.held
    stage.bench.clock.sleep(2)
    stage.wish(owner=1)
    assert not stage.held


@pytest.mark.parametrize("owner", [0, None])
def test_one_that_is_wanted_again_meanwhile_is_kept(stage: Stage, owner: int | None) -> None:
    """As the driver says, or because a batch has come before the driver's wish."""
    stage.wish(owner=1)
    stage.bench.clock.sleep(stage.delay_s + 1)
    if owner is None:
        stage.apply(1)
        worker._standbys.turn()
    else:
        stage.wish(owner=owner)
    assert stage.held


@pytest.mark.parametrize("standby", [0, None])
def test_duties_that_come_late_take_no_store_from_its_owner(
    stage: Stage, standby: int | None
) -> None:
    """A take-over, or a rescale, gave it the state partition after they were written down."""
    stage.apply(1, placement=2)
    assert stage.wish(owner=1, standby=standby, placement=1) is None
    assert stage.opened
    stage.bench.clock.sleep(stage.delay_s + 1)
    worker._standbys.turn()
    assert stage.held
    assert (stage.wish(owner=1, standby=0, placement=2) is None, stage.opened) == (False, False)


def test_another_drivers_duties_count_whatever_their_number(stage: Stage) -> None:
    stage.apply(1, placement=2)
    duties = StandbyDuties({stage.key[0]: stage.plan}, {}, {}, PlacementId("another", 1))
    worker.keep_standbys(duties, "state", 2, stage.bench.settings.application_id)
    assert not stage.opened


def test_the_standby_of_a_new_owner_goes_on_until_its_task_takes_the_store(stage: Stage) -> None:
    """Closed and opened again, it would replay its log while the table stands still."""
    stage.wish(owner=1, standby=0)
    (standby,) = worker._standbys._standbys.values()
    store = standby.store
    assert store is not None
    assert stage.wish(owner=0) is not None
    stage.apply(1)
    (task,) = worker._state_tasks.values()
    assert task.store is store
    assert not worker._standbys.states()
