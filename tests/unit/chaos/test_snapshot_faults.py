"""Faults of snapshots: what is hit, what shows that it landed, what is put back."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from holdfast.chaos.faults.snapshot_faults import SnapshotTarget
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.local.snapshot_folder import SnapshotFolderTarget, folder_of
from holdfast.cli.in_pod.snapshots import JobSnapshots
from holdfast.errors import Refused, Retriable
from holdfast.state.snapshots.manifest import Manifest, SnapshotFile
from holdfast.state.table_store import StorePosition
from holdfast.types.components import EXECUTOR, SNAPSHOTS
from tests.unit.chaos.test_nemesis import Place

CONTENTS = {"000007.sst": b"rows of a table", "CURRENT": b"MANIFEST"}


def _snapshot(root: Path, name: str, offset: int, contents: dict[str, bytes]) -> None:
    folder, files = root / name, []
    (folder / "files").mkdir(parents=True, exist_ok=True)
    (folder / "manifests").mkdir(exist_ok=True)
    for file, data in contents.items():
        sha256 = hashlib.sha256(data).hexdigest()
        (folder / "files" / sha256).write_bytes(data)
        files.append(SnapshotFile(file, len(data), sha256))
    manifest = Manifest(name, StorePosition("topic", offset, 1, "f"), 1, tuple(files))
    (folder / "manifests" / f"{offset:020d}.topic.json").write_bytes(manifest.to_bytes())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "snapshots"
    _snapshot(root, "app/ctas_t/0", 10, CONTENTS)
    _snapshot(root, "app/ctas_t/0", 20, {**CONTENTS, "000009.sst": b"more rows than before"})
    _snapshot(root, "app/ctas_t/1", 5, CONTENTS)
    _snapshot(root, "other/ctas_t/0", 5, CONTENTS)
    return root


@pytest.fixture
def snapshots(root: Path) -> JobSnapshots:
    return JobSnapshots(str(root), "app")


@pytest.fixture
def target(snapshots: JobSnapshots) -> SnapshotTarget:
    return SnapshotTarget(Place(), snapshots)


@pytest.fixture
def folder(snapshots: JobSnapshots, root: Path) -> SnapshotFolderTarget:
    return SnapshotFolderTarget(Place(), snapshots, root)


def _wrong(root: Path) -> list[bytes]:
    everything = [path for path in root.rglob("files/*") if path.is_file()]
    wrong = [p for p in everything if hashlib.sha256(p.read_bytes()).hexdigest() != p.name]
    return sorted(path.read_bytes() for path in wrong)


# -- damage ------------------------------------------------------------------------------------


def test_the_newest_snapshots_are_damaged_and_an_executor_loses_its_volume(
    target: SnapshotTarget, root: Path
) -> None:
    (victim,) = target.victims(SNAPSHOTS)
    assert not target.landed(victim, Fault.DAMAGE_SNAPSHOT).landed
    assert target.strike(victim, Fault.DAMAGE_SNAPSHOT).startswith("a byte of 2 files changed; ")
    assert {len(data) for data in _wrong(root)} == {21, 15}
    assert not _wrong(root / "other")
    assert target.landed(victim, Fault.DAMAGE_SNAPSHOT).evidence.startswith("2 of 2 files are")


def test_a_second_try_does_not_repair_them(target: SnapshotTarget, root: Path) -> None:
    (victim,) = target.victims(SNAPSHOTS)
    target.strike(victim, Fault.DAMAGE_SNAPSHOT)
    before = _wrong(root)
    target.strike(victim, Fault.DAMAGE_SNAPSHOT)
    assert _wrong(root) == before
    assert target.landed(victim, Fault.DAMAGE_SNAPSHOT).landed


def test_a_file_that_is_gone_is_wrong(snapshots: JobSnapshots, root: Path) -> None:
    (path, *_) = (root / "app" / "ctas_t" / "1" / "files").iterdir()
    assert snapshots.wrong([str(path)]) == []
    path.unlink()
    assert snapshots.wrong([str(path)]) == [str(path)]


def test_a_job_without_snapshots_has_no_victim(root: Path) -> None:
    target = SnapshotTarget(Place(), JobSnapshots(str(root), "another"))
    assert target.victims(SNAPSHOTS) == []
    assert [victim.component for victim in target.victims(EXECUTOR)] == [EXECUTOR] * 2


@pytest.mark.parametrize("fault", [Fault.CUT_OFF, Fault.KILL])
def test_what_it_cannot_do_is_refused(target: SnapshotTarget, fault: Fault) -> None:
    (victim,) = target.victims(SNAPSHOTS)
    assert target.faults[SNAPSHOTS] == {Fault.DAMAGE_SNAPSHOT}
    with pytest.raises(Refused, match="cannot be done to snapshots here"):
        target.strike(victim, fault)


# -- a folder of this machine --------------------------------------------------------------------


def test_a_folder_is_named_by_a_path_or_a_uri() -> None:
    assert folder_of("/mnt/a b") == Path("/mnt/a b")
    assert folder_of("file:///mnt/a%20b") == Path("/mnt/a b")
    assert [folder_of(uri) for uri in ("", "s3://bucket/x", "file://")] == [None] * 3


def test_snapshots_in_a_folder_are_damaged_like_others(
    folder: SnapshotFolderTarget, root: Path
) -> None:
    (victim,) = folder.victims(SNAPSHOTS)
    folder.strike(victim, Fault.DAMAGE_SNAPSHOT)
    assert len(_wrong(root)) == 2
    assert folder.landed(victim, Fault.DAMAGE_SNAPSHOT).landed


def test_a_folder_that_is_away_comes_back(folder: SnapshotFolderTarget, root: Path) -> None:
    before = sorted(root.rglob("*"))
    (victim,) = folder.victims(SNAPSHOTS)
    folder.strike(victim, Fault.CUT_OFF)
    assert folder.landed(victim, Fault.CUT_OFF).landed
    assert root.is_file()
    assert folder.victims(SNAPSHOTS) == [], "nothing can be seen"
    with pytest.raises(Retriable, match="away already"):
        folder.strike(victim, Fault.CUT_OFF)
    folder.heal(victim, Fault.CUT_OFF)
    folder.heal(victim, Fault.CUT_OFF)
    assert sorted(root.rglob("*")) == before
    assert not folder.landed(victim, Fault.CUT_OFF).landed


def test_what_a_killed_run_left_is_found(
    folder: SnapshotFolderTarget, snapshots: JobSnapshots, root: Path
) -> None:
    (victim,) = folder.victims(SNAPSHOTS)
    folder.strike(victim, Fault.CUT_OFF)
    another = SnapshotFolderTarget(Place(), snapshots, root)
    assert another.heal_all()[-1].startswith("snapshots are back")
    assert root.is_dir()


def test_other_faults_and_components_are_not_its_own(folder: SnapshotFolderTarget) -> None:
    (victim,) = folder.victims(SNAPSHOTS)
    with pytest.raises(Refused, match="cannot be done to snapshots"):
        folder.strike(victim, Fault.KILL)
    assert folder.faults[SNAPSHOTS] == {Fault.DAMAGE_SNAPSHOT, Fault.CUT_OFF}
    executor = folder.victims(EXECUTOR)[0]
    folder.strike(executor, Fault.KILL)
    assert folder.recovered([victim])
