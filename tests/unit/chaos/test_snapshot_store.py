"""Faults of snapshots in a folder: what is hit, what shows that it landed, what is put back."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.local.snapshot_store import SnapshotTarget, folder_of
from holdfast.errors import Refused, Retriable
from holdfast.types.components import EXECUTOR, SNAPSHOTS
from tests.unit.chaos.test_nemesis import Place

CONTENTS = {"000007.sst": b"rows of a table", "CURRENT": b"MANIFEST"}


def _snapshot(root: Path, partition: int, offset: int, contents: dict[str, bytes]) -> None:
    folder = root / "app" / "ctas_t" / str(partition)
    files = []
    for name, data in contents.items():
        sha256 = hashlib.sha256(data).hexdigest()
        (folder / "files").mkdir(parents=True, exist_ok=True)
        (folder / "files" / sha256).write_bytes(data)
        files.append({"name": name, "size": len(data), "sha256": sha256})
    (folder / "manifests").mkdir(exist_ok=True)
    path = folder / "manifests" / f"{offset:020d}.topic.json"
    path.write_text(json.dumps({"files": files}))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "snapshots"
    _snapshot(root, 0, 10, CONTENTS)
    _snapshot(root, 0, 20, {**CONTENTS, "000009.sst": b"more rows than before"})
    _snapshot(root, 1, 5, CONTENTS)
    return root


@pytest.fixture
def target(root: Path) -> SnapshotTarget:
    return SnapshotTarget(Place(), root, "app")


def test_a_folder_is_named_by_a_path_or_a_uri() -> None:
    assert folder_of("/mnt/a b") == Path("/mnt/a b")
    assert folder_of("file:///mnt/a%20b") == Path("/mnt/a b")
    assert [folder_of(uri) for uri in ("", "s3://bucket/x", "file://")] == [None] * 3


def test_the_newest_snapshots_are_hit_with_an_executor(target: SnapshotTarget, root: Path) -> None:
    (victim,) = target.victims(SNAPSHOTS)
    assert not target.landed(victim, Fault.DAMAGE_SNAPSHOT).landed
    assert target.strike(victim, Fault.DAMAGE_SNAPSHOT).startswith("a byte of 2 files changed; ")
    wrong = sorted(
        path.read_bytes()
        for path in root.rglob("files/*")
        if hashlib.sha256(path.read_bytes()).hexdigest() != path.name
    )
    assert len(wrong) == 2
    assert {len(data) for data in wrong} == {len(b"more rows than before"), len(b"rows of a table")}
    assert target.landed(victim, Fault.DAMAGE_SNAPSHOT).evidence.startswith("2 files changed; ")


def test_another_jobs_snapshots_are_left_alone(root: Path) -> None:
    target = SnapshotTarget(Place(), root, "another")
    assert target.victims(SNAPSHOTS) == []


def test_a_folder_that_is_away_comes_back(target: SnapshotTarget, root: Path) -> None:
    before = sorted(root.rglob("*"))
    (victim,) = target.victims(SNAPSHOTS)
    target.strike(victim, Fault.CUT_OFF)
    assert target.landed(victim, Fault.CUT_OFF).landed
    assert root.is_file()
    with pytest.raises(Retriable, match="away already"):
        target.strike(victim, Fault.CUT_OFF)
    target.heal(victim, Fault.CUT_OFF)
    target.heal(victim, Fault.CUT_OFF)
    assert sorted(root.rglob("*")) == before
    assert not target.landed(victim, Fault.CUT_OFF).landed


def test_what_a_killed_run_left_is_found(target: SnapshotTarget, root: Path) -> None:
    (victim,) = target.victims(SNAPSHOTS)
    target.strike(victim, Fault.CUT_OFF)
    assert SnapshotTarget(Place(), root, "app").heal_all()[-1].startswith("snapshots are back")
    assert root.is_dir()


def test_other_faults_and_components_are_not_its_own(target: SnapshotTarget) -> None:
    (victim,) = target.victims(SNAPSHOTS)
    with pytest.raises(Refused, match="cannot be done to snapshots"):
        target.strike(victim, Fault.KILL)
    assert target.faults[SNAPSHOTS] == {Fault.DAMAGE_SNAPSHOT, Fault.CUT_OFF}
    executor = target.victims(EXECUTOR)[0]
    target.strike(executor, Fault.KILL)
    assert target.recovered([victim])
