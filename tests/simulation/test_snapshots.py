"""An executor takes snapshots of its stores, and restores a lost store from the newest good one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import SnapshotsUnavailable
from holdfast.state.snapshots.archive import Archive
from holdfast.tasks import worker
from holdfast.tasks.plan import TaskReport
from tests.simulation.histories.job import DELETE_RETENTION_MS
from tests.simulation.jobs.one_partition import INTERVAL_S, OnePartition

BATCHES = 12


class Stage(OnePartition):
    """A table whose batches have one record each, with a key of its own."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch)
        for n in range(BATCHES):
            self.write(b"k%d" % n, b'{"v": 1, "ts": 1000}')

    def step(self) -> TaskReport:
        """The next batch; then the executor's thread."""
        report = self.apply(self.done + 1)
        worker._snapshots.turn()
        return report

    def wait(self, seconds: float = INTERVAL_S) -> None:
        self.bench.clock.sleep(seconds)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(monkeypatch)
    yield made
    made.close()


def test_a_snapshot_is_taken_when_it_is_due_and_something_has_changed(stage: Stage) -> None:
    first = stage.step()
    assert first.snapshot is not None
    assert first.snapshot.offset == -1
    assert stage.snapshots() == [first.position], "the first one at once"
    second = stage.step()
    assert second.snapshot is not None
    assert second.snapshot.offset == first.position
    assert stage.snapshots() == [first.position], "it is not due"
    stage.wait()
    third = stage.step()
    assert stage.snapshots() == [first.position, third.position]
    stage.wait()
    worker._snapshots.turn()
    assert stage.snapshots() == [first.position, third.position], "nothing has changed"
    stage.wait()
    fourth = stage.step()
    assert stage.snapshots() == [third.position, fourth.position], "two are kept"


def test_a_new_process_goes_on_with_the_interval_of_the_former_one(stage: Stage) -> None:
    taken = stage.step()
    stage.wait(INTERVAL_S / 2)
    stage.bench.renew()
    stage.step()
    assert stage.snapshots() == [taken.position]
    stage.wait(INTERVAL_S / 2)
    assert len(stage.snapshots()) == 1
    stage.step()
    assert len(stage.snapshots()) == 2


def _lost_after(stage: Stage, batches: int) -> TaskReport:
    """The last report before the volume was lost; its last batch is in no snapshot."""
    for _ in range(batches):
        stage.wait()
        stage.step()
    last = stage.step()
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
    for _ in range(2):
        state = stage.follow(0, 1)
    assert state is not None
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
    report = stage.step()
    worker._snapshots.turn()
    report = stage.step()
    assert report.snapshot is not None
    assert "out of reach" in report.snapshot.error
    stage.wait(100)
    stage.step()
    assert len(stage.snapshots()) == 2
    report = stage.step()
    assert report.snapshot is not None
    assert (report.snapshot.error, report.snapshot.offset) == ("", stage.snapshots()[-1])


def test_a_store_that_was_away_for_too_long_is_exchanged_for_a_snapshot(stage: Stage) -> None:
    """Otherwise the whole changelog would be replayed, as tombstones may be missing by now."""
    stage.step()
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


def test_an_error_is_told_until_all_is_well_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was in the clearing away after a snapshot, and the table does not change."""

    def refuse(*_: object) -> None:
        raise SnapshotsUnavailable("It may not be removed.")

    with monkeypatch.context() as patch:
        patch.setattr(Archive, "retain", refuse)
        stage.step()
    key = (stage.plan.settings.application_id, *stage.key)
    state = worker._snapshots.state(key)
    assert state is not None
    assert "may not be removed" in state.error
    assert len(stage.snapshots()) == 1
    stage.wait(60)
    worker._snapshots.turn()
    state = worker._snapshots.state(key)
    assert state is not None
    assert (state.error, state.offset) == ("", stage.snapshots()[0])
