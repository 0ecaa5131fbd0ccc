"""A savepoint is brought in once, whoever tries it again, and stops, and goes on later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.errors import Fenced, HoldfastError, IncompatibleStatement, StoreCorrupted
from holdfast.state.snapshots import savepoints
from holdfast.state.snapshots.savepoints import SavedStore, folder_of
from holdfast.tasks import steps, worker
from holdfast.tasks.bringing_in import Origin
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, TaskReport
from holdfast.types.ids import OffsetRange, changelog_topic, stands_at
from holdfast.types.steps import SavepointStep
from tests.simulation.fakes.coroutine import Coroutine
from tests.simulation.jobs.one_partition import OnePartition
from tests.simulation.jobs.payloads import payloads

RECORDS = 10
CUT = 6  # the savepoint goes up to here


class Stage(OnePartition):
    """A table of one state partition, its savepoint, and a new job with three."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch)
        patch.setattr(savepoints, "opened", self.place.opened)
        for n in range(RECORDS):
            self.write(b"k%d" % (n % 4), b'{"v": 1, "ts": 1000}')
        self.apply(CUT)
        self.origin = self._saved()
        settings = replace(
            self.plan.settings,
            application_id="new",
            state=replace(self.plan.settings.state, partitions=3),
        )
        changelog = changelog_topic("new", self.plan.query.id)
        topic = self.bench.kafka.make_topic(changelog, 3, {})
        self.new = QueryPlan(settings, self.plan.query, changelog, topic.topic_id, 1, "state")

    def _saved(self) -> Origin:
        settings, query_id = self.plan.settings, self.plan.query.id
        folder = folder_of(settings.application_id, "s", "1")
        report = worker.copy_for_savepoint(self.plan, 0, Assigned(self.bench.ordinal), folder)
        assert isinstance(report, TaskReport)
        assert report.marker is not None
        (told,) = worker.copied_for_savepoint("state", 2, folder).copies
        assert told.manifest is not None, told.error
        store = SavedStore(0, report.rows, report.marker.to_bytes().decode(), told.manifest)
        source = stands_at(report.marker.source)
        return Origin("app/s@1", f"{folder}/{query_id}", (store,), source, frozenset({"s"}))

    def bring_in(self, origin: Origin | None = None) -> int:
        """The number of rows that this call has brought in.

        Raises:
            HoldfastError: the executor's answer.
        """
        answer = worker.bring_in_share(self.new, origin or self.origin, 0)
        if isinstance(answer, HoldfastError):
            raise answer
        return answer.rows

    def go_on(self, end: int = RECORDS) -> None:
        """The new job's first batch."""
        source = OffsetRange.of("s", {0: CUT}, {0: end}, self.origin.source.ids.get("s", ""))
        for p, payload in enumerate(payloads(self.new.settings, self.new.query, source, 3)):
            assigned = Assigned(self.bench.ordinal)
            answer = worker.process_partition(self.new, p, assigned, Batch(1, source), payload)
            assert isinstance(answer, TaskReport), answer

    def rows(self) -> dict[bytes, bytes]:
        """The rows of the new job's stores, which are level with their changelogs."""
        found: dict[bytes, bytes] = {}
        for p in range(3):
            report = worker.open_partition(self.new, p, Assigned(self.bench.ordinal))
            assert isinstance(report, TaskReport), report
            found |= dict(worker._state_tasks["new", self.new.query.id, p].store.scan())
        return found

    def whole(self) -> dict[bytes, bytes]:
        """The rows of the former job after all records."""
        self.apply(RECORDS)
        key = self.plan.settings.application_id, *self.key
        return dict(worker._state_tasks[key].store.scan())


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(monkeypatch)
    yield made
    made.close()


def test_it_goes_on_as_the_former_job_does(stage: Stage) -> None:
    assert stage.bring_in() == 4
    stage.go_on()
    assert stage.rows() == stage.whole()


def test_whoever_brings_it_in_again_changes_nothing(stage: Stage) -> None:
    """A second driver has not seen that the first one was done, and took batches since."""
    stage.bring_in()
    stage.go_on()
    assert stage.bring_in() == 0
    assert stage.rows() == stage.whole()


@pytest.mark.parametrize("step", [SavepointStep.SENT, SavepointStep.BROUGHT_IN])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_one_that_stops_and_goes_on_later_changes_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, step: SavepointStep, nth: int
) -> None:
    seen: list[Any] = []

    def stop(at: Any, *_: object) -> None:
        if at is step:
            seen.append(at)
            if len(seen) == nth:
                zombie.pause()

    monkeypatch.setattr(steps, "_observer", stop)
    zombie = Coroutine(stage.bring_in)
    assert not zombie.resume()
    stage.bring_in()
    stage.go_on()
    zombie.resume()
    if step is SavepointStep.SENT:  # its transaction was open
        with pytest.raises(Fenced):
            zombie.outcome()
    assert stage.rows() == stage.whole()


def test_another_savepoint_is_refused_once_one_is_there(stage: Stage) -> None:
    stage.bring_in()
    with pytest.raises(IncompatibleStatement, match="began with app/s@1, not with app/s@2"):
        stage.bring_in(replace(stage.origin, reference="app/s@2"))
    stage.go_on()
    assert stage.rows() == stage.whole()


def test_of_a_damaged_one_nothing_is_brought_in(stage: Stage) -> None:
    for path in stage.place.root.rglob("savepoints/**/files/*"):
        path.write_bytes(b"damaged")
    with pytest.raises(StoreCorrupted, match="savepoint app/s@1 cannot be brought in: The file"):
        stage.bring_in()
    assert stage.bench.kafka.log(stage.new.changelog, 0).stable_end == 0
