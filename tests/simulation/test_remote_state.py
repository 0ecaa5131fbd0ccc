"""An executor whose stores are in a database: takeovers, zombies, losses, and stores to delete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.config.settings import RemoteSettings
from holdfast.errors import Fenced, StoreUnavailable
from holdfast.tasks import steps, worker
from holdfast.tasks.plan import QueryPlan, StandbyDuties
from holdfast.types.steps import AnyStep, Step
from tests.simulation.fakes.coroutine import Coroutine
from tests.simulation.jobs.one_partition import OnePartition

RECORDS = 12


class Stage(OnePartition):
    """A table of one state partition, whose store is in a database."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch)
        self.database = self.bench.database
        for n in range(RECORDS):
            self.write(b"k%d" % (n % 4), b'{"v": 1, "ts": 1000}')
        state = replace(
            self.plan.settings.state, backend="remote", remote=RemoteSettings("redis://fake:1")
        )
        self.plan = replace(self.plan, settings=replace(self.plan.settings, state=state))

    @property
    def rows(self) -> dict[bytes, bytes]:
        """The rows in the store of the running executor."""
        return dict(self.bench.rows())

    def look(self, plan: QueryPlan) -> list[str]:
        """The stores that are left after the driver has named this state as the one there is."""
        duties = StandbyDuties({plan.state_name: plan}, {}, {})
        worker.keep_standbys(duties, "state", 2, plan.settings.application_id)
        worker._standbys.turn()
        return sorted(self.database.content)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(monkeypatch)
    yield made
    made.close()


def _whole() -> dict[bytes, bytes]:
    """The rows of a table whose database never lost anything."""
    with pytest.MonkeyPatch.context() as patch:
        stage = Stage(patch)
        stage.apply(RECORDS)
        rows = stage.rows
        stage.close()
    return rows


def test_another_executor_goes_on_without_a_restore(stage: Stage) -> None:
    stage.apply(6)
    stage.bench.on(1)
    assert stage.reopened().restored_records == 0
    stage.apply(RECORDS)
    assert stage.rows == _whole()
    assert not stage.bench.disk.paths(Path()), "no store is on a volume"


def test_a_zombie_that_has_committed_does_not_write_over_its_successor(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(at: AnyStep, *_: object) -> None:
        if at is Step.COMMITTED and zombie not in stopped:
            stopped.append(zombie)
            zombie.pause()

    stopped: list[Coroutine] = []
    stage.apply(4)
    monkeypatch.setattr(steps, "_observer", stop)
    zombie = Coroutine(lambda: stage.try_batch(1, 4, 8))
    assert not zombie.resume()
    stage.bench.on(1)
    stage.reopened()
    stage.batch, stage.done = 2, 8
    stage.apply(RECORDS)
    stage.bench.on(0)
    assert zombie.resume()
    assert isinstance(zombie.outcome(), Fenced)
    stage.bench.on(1)
    assert stage.rows == _whole()


def test_what_the_database_loses_is_restored(stage: Stage) -> None:
    stage.apply(6)
    stage.database.flush()
    lost = stage.try_batch(1, 6, RECORDS)
    assert isinstance(lost, StoreUnavailable)
    assert "was emptied" in lost.fact
    stage.apply(RECORDS)
    assert stage.rows == _whole()


def test_a_batch_waits_until_the_database_is_back(stage: Stage) -> None:
    stage.apply(6)
    stage.database.away = lambda: True
    for _ in range(2):
        assert isinstance(stage.try_batch(1, 6, RECORDS), StoreUnavailable)
    stage.database.away = lambda: False
    stage.apply(RECORDS)
    assert stage.rows == _whole()


def test_stores_of_a_former_generation_are_deleted_after_a_while(stage: Stage) -> None:
    delay_s = stage.plan.settings.state.cleanup_delay_ms / 1000
    stage.apply(RECORDS)
    former, current = "app/ctas_t/0", "app/ctas_t-g1/0"
    for name in (current, "app/another/0", "other/ctas_t/0"):
        stage.database.open(name, None)
    others = {"app/another/0", "other/ctas_t/0"}
    after = replace(stage.plan, generation=1)
    assert set(stage.look(after)) == {former, current, *others}
    stage.bench.clock.sleep(delay_s - 1)
    assert set(stage.look(after)) == {former, current, *others}
    stage.bench.clock.sleep(2)
    assert set(stage.look(after)) == {current, *others}


def test_those_of_the_current_one_are_kept_whoever_owns_them(stage: Stage) -> None:
    delay_s = stage.plan.settings.state.cleanup_delay_ms / 1000
    stage.apply(RECORDS)
    stage.bench.on(1)
    for _ in range(3):
        assert stage.look(stage.plan) == ["app/ctas_t/0"]
        stage.bench.clock.sleep(2 * delay_s)
    stage.bench.on(0)
    assert stage.rows == _whole()
