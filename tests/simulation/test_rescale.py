"""A state moves to another generation once, whoever tries it again, stops, or goes on later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.errors import Fenced, Moved, PlanAgain
from holdfast.state.changelog import data_key
from holdfast.tasks import steps, worker
from holdfast.tasks.rescaling.switch import settled
from holdfast.types.steps import RescaleStep
from tests.simulation.fakes.coroutine import Coroutine
from tests.simulation.jobs.one_rescale import CUT, RECORDS, TO, OneRescale, raised


@pytest.fixture(scope="module")
def whole() -> dict[bytes, bytes]:
    """The rows of a table that was never rescaled, after all records."""
    with pytest.MonkeyPatch.context() as patch:
        stage = OneRescale(patch)
        stage.apply(RECORDS)
        key = stage.plan.settings.application_id, *stage.key
        rows = dict(worker._state_tasks[key].store.scan())
        stage.close()
    return rows


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[OneRescale]:
    made = OneRescale(monkeypatch)
    yield made
    made.close()


def test_it_goes_on_as_it_would_have(stage: OneRescale, whole: dict[bytes, bytes]) -> None:
    stage.copy()
    stage.switch()
    stage.go_on()
    assert stage.rows() == whole


def test_a_row_that_is_deleted_while_it_is_copied_does_not_come_back(
    stage: OneRescale, whole: dict[bytes, bytes]
) -> None:
    stage.copy()
    gone = min(whole)
    stage.bench.kafka.log(stage.plan.changelog, 0).append(data_key(gone), None, 1_000)
    stage.switch()
    assert stage.rows().keys() == whole.keys() - {gone}


def test_nobody_commits_in_the_former_generation_any_more(stage: OneRescale) -> None:
    stage.switch()
    with pytest.raises(Fenced):
        raised(stage.try_batch(1, CUT, RECORDS))
    with pytest.raises(Moved, match="generation 1 with 3 state partitions"):
        raised(stage.try_batch(1, CUT, RECORDS))
    assert settled(stage.plan) == TO


def test_a_copier_that_comes_late_finds_that_the_copying_has_ended(
    stage: OneRescale, whole: dict[bytes, bytes]
) -> None:
    stage.switch()
    with pytest.raises(PlanAgain, match="has begun already"):
        stage.copy()
    stage.go_on()
    with pytest.raises(PlanAgain, match="has begun already"):
        stage.copy()
    assert stage.rows() == whole


def test_one_that_sleeps_through_the_switch_is_fenced(
    stage: OneRescale, monkeypatch: pytest.MonkeyPatch, whole: dict[bytes, bytes]
) -> None:
    slept: list[Any] = []

    def stop(at: Any, *_: object) -> None:
        if at is RescaleStep.LEVEL and not slept:
            slept.append(at)
            sleeper.pause()

    former = stage.fenced()
    monkeypatch.setattr(steps, "_observer", stop)
    sleeper = Coroutine(lambda: stage.end(former))
    assert not sleeper.resume()
    copiers = dict(worker._copiers)
    worker._copiers.clear()  # another executor's process
    stage.switch()
    stage.go_on()
    worker._copiers.update(copiers)
    sleeper.resume()
    with pytest.raises(Fenced):
        sleeper.outcome()
    assert stage.rows() == whole


def test_a_switch_that_was_not_decided_is_taken_back_and_can_be_tried_again(
    stage: OneRescale, whole: dict[bytes, bytes]
) -> None:
    former = stage.fenced()
    stage.end(former)
    assert settled(stage.plan) is None, "its driver has died before it said so"
    with pytest.raises(Fenced):
        former.move(TO, stage.record)
    stage.apply(RECORDS)
    key = stage.plan.settings.application_id, *stage.key
    assert dict(worker._state_tasks[key].store.scan()) == whole
