"""An executor takes snapshots of its stores, and restores a lost store from the newest good one."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.config.settings import SnapshotSettings
from holdfast.state.snapshots import archive
from holdfast.tasks import worker
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, StandbyDuties, TaskReport
from holdfast.types.ids import OffsetRange, changelog_topic
from tests.simulation.fakes.executors import Bench
from tests.simulation.fakes.snapshot_place import SnapshotPlace
from tests.simulation.histories.job import DELETE_RETENTION_MS
from tests.simulation.jobs.payloads import payloads
from tests.simulation.jobs.statements import topology

INTERVAL_S = 30.0
BATCHES = 12


class Stage:
    """A table of one state partition, whose batches a test applies one by one."""

    def __init__(self, bench: Bench, place: SnapshotPlace) -> None:
        self.bench, self.place = bench, place
        bench.disk.scratch = place.root
        query = topology("totals").queries[0]
        snapshots = SnapshotSettings(place.uri, int(INTERVAL_S * 1000), 2)
        settings = replace(bench.settings, snapshots=snapshots)
        changelog = changelog_topic(settings.application_id, query.id)
        self.topic = bench.kafka.make_topic(changelog, 1, {})
        bench.kafka.make_topic(query.sink.topic, 1, {})
        log = bench.kafka.make_topic("s", 1, {}).logs[0]
        for n in range(BATCHES):
            log.append(b"k%d" % n, b'{"v": 1, "ts": 1000}', 1000)
        self.plan = QueryPlan(settings, query, changelog, self.topic.topic_id, 1, "state")
        self.batch = 0
        bench.on(0)

    def apply(self) -> TaskReport:
        """The next batch, of one record with a key of its own; then the executor's thread."""
        batch, self.batch = self.batch, self.batch + 1
        source = OffsetRange.of("s", {0: batch}, {0: batch + 1})
        (payload,) = payloads(self.plan.settings, self.plan.query, source, 1)
        assigned = Assigned(self.bench.ordinal)
        answer = worker.process_partition(self.plan, 0, assigned, Batch(batch, source), payload)
        assert isinstance(answer, TaskReport), answer
        worker._snapshots.turn()
        return answer

    def reopened(self) -> TaskReport:
        """The report of opening the store again."""
        answer = worker.open_partition(self.plan, 0, Assigned(self.bench.ordinal))
        assert isinstance(answer, TaskReport), answer
        return answer

    def wait(self, seconds: float = INTERVAL_S) -> None:
        self.bench.clock.sleep(seconds)

    def offsets(self) -> list[int]:
        """Changelog offsets of the snapshots there are."""
        folder = self.folder / "manifests"
        return sorted(int(p.name[:20]) for p in folder.iterdir()) if folder.exists() else []

    @property
    def folder(self) -> Path:
        settings = self.plan.settings
        return Path(self.place.uri) / settings.application_id / self.plan.query.id / "0"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    bench = Bench(monkeypatch)
    place = SnapshotPlace(bench.clock, random.Random(0))
    monkeypatch.setattr(archive, "opened", place.opened)
    yield Stage(bench, place)
    place.close()


def test_a_snapshot_is_taken_when_it_is_due_and_something_has_changed(stage: Stage) -> None:
    first = stage.apply()
    assert first.snapshot is not None
    assert first.snapshot.offset == -1
    assert stage.offsets() == [first.position], "the first one at once"
    second = stage.apply()
    assert second.snapshot is not None
    assert second.snapshot.offset == first.position
    assert stage.offsets() == [first.position], "it is not due"
    stage.wait()
    third = stage.apply()
    assert stage.offsets() == [first.position, third.position]
    stage.wait()
    worker._snapshots.turn()
    assert stage.offsets() == [first.position, third.position], "nothing has changed"
    stage.wait()
    fourth = stage.apply()
    assert stage.offsets() == [third.position, fourth.position], "two are kept"


def test_a_new_process_goes_on_with_the_interval_of_the_former_one(stage: Stage) -> None:
    taken = stage.apply()
    stage.wait(INTERVAL_S / 2)
    stage.bench.renew()
    stage.apply()
    assert stage.offsets() == [taken.position]
    stage.wait(INTERVAL_S / 2)
    assert len(stage.offsets()) == 1
    stage.apply()
    assert len(stage.offsets()) == 2


def _lost_after(stage: Stage, batches: int) -> TaskReport:
    """The last report before the volume was lost; its last batch is in no snapshot."""
    for _ in range(batches):
        stage.wait()
        stage.apply()
    last = stage.apply()
    stage.bench.lose_volume()
    return last


def test_a_lost_store_is_restored_from_the_newest_and_the_tail(stage: Stage) -> None:
    last = _lost_after(stage, 4)
    found = stage.reopened()
    assert found.restore_reason.startswith("a snapshot of ")
    assert found.restored_records == 2, "one row and its commit marker"
    assert (found.rows, found.position) == (last.rows, last.position + 1)  # the transaction's end


def test_on_another_executor_too(stage: Stage) -> None:
    last = _lost_after(stage, 4)
    stage.bench.on(1)
    found = stage.reopened()
    assert (found.rows, found.restored_records) == (last.rows, 2)


def test_a_standby_begins_with_a_snapshot(stage: Stage) -> None:
    last = _lost_after(stage, 4)
    stage.bench.on(1)
    key = stage.plan.query.id, 0
    duties = StandbyDuties({key[0]: stage.plan}, {1: frozenset({key})}, {})
    for _ in range(2):
        worker.keep_standbys(duties, "state", 2, stage.plan.settings.application_id)
        worker._standbys.turn()
    (state,) = worker._standbys.states()
    assert (state.position, state.lag, state.error) == (last.position + 1, 0, "")
    found = stage.reopened()
    assert (found.rows, found.restored_records) == (last.rows, 0)


def test_an_older_one_is_taken_if_the_newest_is_damaged(stage: Stage) -> None:
    last = _lost_after(stage, 4)
    newest = json.loads(max((stage.folder / "manifests").iterdir()).read_bytes())
    older = json.loads(min((stage.folder / "manifests").iterdir()).read_bytes())
    of_older = {f["sha256"] for f in older["files"]}
    for file in newest["files"]:
        if file["sha256"] not in of_older:
            (stage.folder / "files" / file["sha256"]).unlink()
    found = stage.reopened()
    assert found.restore_reason.startswith("a snapshot of ")
    assert (found.rows, found.restored_records) == (last.rows, 4)


def test_without_a_good_one_the_changelog_has_everything(stage: Stage) -> None:
    last = _lost_after(stage, 4)
    for file in (stage.folder / "files").iterdir():
        file.write_bytes(b"")
    found = stage.reopened()
    assert found.restore_reason == "no snapshot that is good; the store is empty"
    assert (found.rows, found.restored_records) == (last.rows, 10)


def test_so_it_has_while_the_snapshots_are_out_of_reach(stage: Stage) -> None:
    last = _lost_after(stage, 4)
    stage.place.away_until_s = stage.bench.clock.monotonic() + 100
    found = stage.reopened()
    assert found.restore_reason == "the snapshots are out of reach; the store is empty"
    assert found.rows == last.rows
    report = stage.apply()
    worker._snapshots.turn()
    report = stage.apply()
    assert report.snapshot is not None
    assert "out of reach" in report.snapshot.error
    stage.wait(100)
    stage.apply()
    assert len(stage.offsets()) == 2
    report = stage.apply()
    assert report.snapshot is not None
    assert (report.snapshot.error, report.snapshot.offset) == ("", stage.offsets()[-1])


def test_a_store_that_was_away_for_too_long_is_exchanged_for_a_snapshot(stage: Stage) -> None:
    """Otherwise the whole changelog would be replayed, as tombstones may be missing by now."""
    stage.apply()
    stage.bench.kill()
    stage.bench.on(1)
    stage.wait(DELETE_RETENTION_MS / 1000 + 1)
    last = _lost_after(stage, 2)
    stage.bench.on(0)
    found = stage.reopened()
    assert found.restore_reason.startswith("a snapshot of ")
    assert (found.rows, found.restored_records) == (last.rows, 2)


def test_a_snapshot_older_than_the_tombstones_is_not_used(stage: Stage) -> None:
    last = _lost_after(stage, 2)
    stage.wait(DELETE_RETENTION_MS / 1000 + 1)
    found = stage.reopened()
    assert found.restore_reason == "no snapshot that is young enough; the store is empty"
    assert found.rows == last.rows


def test_nor_is_one_of_a_topic_of_the_same_name(stage: Stage) -> None:
    _lost_after(stage, 2)
    stage.plan = replace(stage.plan, changelog_topic_id="another")
    assert stage.reopened().restore_reason == "no snapshot; the store is empty"


def test_one_of_another_state_partition_is_not_taken_for_this_ones(stage: Stage) -> None:
    """Somebody has copied a folder of the archive to another place."""
    last = _lost_after(stage, 2)
    for path in list((stage.folder / "manifests").iterdir()):
        told = json.loads(path.read_bytes())
        for file in told["files"]:
            _rename_owner(stage.folder / "files" / file["sha256"], told, file)
        path.write_text(json.dumps(told))
    found = stage.reopened()
    assert found.restore_reason == "no snapshot that is good; the store is empty"
    assert found.rows == last.rows


def _rename_owner(path: Path, manifest: dict[str, object], file: dict[str, object]) -> None:
    """The file's rows say that they are of state partition 1, and its manifest agrees."""
    if not path.exists():
        return
    own, other = (f'app/ctas_t/{n}"'.encode().hex() for n in (0, 1))
    data = path.read_text().replace(own, other).encode()
    file["sha256"], file["size"] = hashlib.sha256(data).hexdigest(), len(data)
    (path.parent / str(file["sha256"])).write_bytes(data)
