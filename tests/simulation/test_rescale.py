"""A state moves to another generation once, whoever tries it again, stops, or goes on later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.errors import Fenced, HoldfastError, Moved, PlanAgain
from holdfast.state.changelog import data_key
from holdfast.state.layout import Layout
from holdfast.state.topics.orders import layout_record
from holdfast.tasks import steps, worker
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, TaskReport
from holdfast.tasks.rescaling.copier import Ending
from holdfast.tasks.rescaling.switch import Former, settled
from holdfast.types.ids import OffsetRange, changelog_topic
from holdfast.types.steps import RescaleStep
from tests.simulation.fakes.coroutine import Coroutine
from tests.simulation.jobs.one_partition import OnePartition
from tests.simulation.jobs.payloads import payloads

RECORDS = 10
CUT = 6  # the former generation goes up to here
TO = Layout(1, 3)


class Stage(OnePartition):
    """A table of one state partition, and its next generation with three."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch)
        for n in range(RECORDS):
            self.write(b"k%d" % (n % 4), b'{"v": 1, "ts": 1000}')
        self.apply(CUT)
        settings, query = self.plan.settings, self.plan.query
        name = changelog_topic(settings.application_id, query.id, TO.generation)
        topic = self.bench.kafka.make_topic(name, TO.state_partitions, {})
        state = replace(settings.state, partitions=TO.state_partitions)
        self.record = layout_record(settings.application_id, query.id, TO)
        self.bench.kafka.make_topic(self.record[0], 1, {})
        self.new = QueryPlan(
            replace(settings, state=state), query, name, topic.topic_id, 1, "state", TO.generation
        )

    def copy(self) -> None:
        """Copies some of the changelog.

        Raises:
            HoldfastError: the executor's answer.
        """
        _raised(worker.copy_share(self.plan, self.new, 0, 1.0))

    def end(self, former: Former) -> None:
        """Copies the rest.

        Raises:
            HoldfastError: the executor's answer.
        """
        _raised(worker.end_share(self.plan, self.new, 0, Ending(former.ends, former.markers)))

    def fenced(self) -> Former:
        former = Former(self.plan, threaded=False)
        former.fence()
        return former

    def switch(self) -> None:
        former = self.fenced()
        self.end(former)
        former.move(TO, self.record)

    def go_on(self) -> None:
        """The first batch of the next generation."""
        source = OffsetRange.of("s", {0: CUT}, {0: RECORDS}, self._source_id())
        for p, payload in enumerate(payloads(self.new.settings, self.new.query, source, 3)):
            assigned = Assigned(self.bench.ordinal)
            answer = worker.process_partition(self.new, p, assigned, Batch(1, source), payload)
            assert isinstance(answer, TaskReport), answer

    def rows(self) -> dict[bytes, bytes]:
        """The rows of the next generation's stores, which are level with their changelogs."""
        found: dict[bytes, bytes] = {}
        for p in range(3):
            report = worker.open_partition(self.new, p, Assigned(self.bench.ordinal))
            assert isinstance(report, TaskReport), report
            key = self.new.settings.application_id, self.new.state_name, p
            found |= dict(worker._state_tasks[key].store.scan())
        return found

    def _source_id(self) -> str:
        answer = worker.open_partition(self.new, 0, Assigned(self.bench.ordinal))
        assert isinstance(answer, TaskReport)
        assert answer.marker is not None
        return answer.marker.source.ids.get("s", "")


def _raised(answer: object) -> None:
    if isinstance(answer, HoldfastError):
        raise answer


@pytest.fixture(scope="module")
def whole() -> dict[bytes, bytes]:
    """The rows of a table that was never rescaled, after all records."""
    with pytest.MonkeyPatch.context() as patch:
        stage = Stage(patch)
        stage.apply(RECORDS)
        key = stage.plan.settings.application_id, *stage.key
        rows = dict(worker._state_tasks[key].store.scan())
        stage.close()
    return rows


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(monkeypatch)
    yield made
    made.close()


def test_it_goes_on_as_it_would_have(stage: Stage, whole: dict[bytes, bytes]) -> None:
    stage.copy()
    stage.switch()
    stage.go_on()
    assert stage.rows() == whole


def test_a_row_that_is_deleted_while_it_is_copied_does_not_come_back(
    stage: Stage, whole: dict[bytes, bytes]
) -> None:
    stage.copy()
    gone = min(whole)
    stage.bench.kafka.log(stage.plan.changelog, 0).append(data_key(gone), None, 1_000)
    stage.switch()
    assert stage.rows().keys() == whole.keys() - {gone}


def test_nobody_commits_in_the_former_generation_any_more(stage: Stage) -> None:
    stage.switch()
    with pytest.raises(Fenced):
        _raised(stage.try_batch(1, CUT, RECORDS))
    with pytest.raises(Moved, match="generation 1 with 3 state partitions"):
        _raised(stage.try_batch(1, CUT, RECORDS))
    assert settled(stage.plan) == TO


def test_a_copier_that_comes_late_finds_that_the_copying_has_ended(
    stage: Stage, whole: dict[bytes, bytes]
) -> None:
    stage.switch()
    with pytest.raises(PlanAgain, match="has begun already"):
        stage.copy()
    stage.go_on()
    with pytest.raises(PlanAgain, match="has begun already"):
        stage.copy()
    assert stage.rows() == whole


def test_one_that_sleeps_through_the_switch_is_fenced(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, whole: dict[bytes, bytes]
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
    stage: Stage, whole: dict[bytes, bytes]
) -> None:
    former = stage.fenced()
    stage.end(former)
    assert settled(stage.plan) is None, "its driver has died before it said so"
    with pytest.raises(Fenced):
        former.move(TO, stage.record)
    stage.apply(RECORDS)
    key = stage.plan.settings.application_id, *stage.key
    assert dict(worker._state_tasks[key].store.scan()) == whole
