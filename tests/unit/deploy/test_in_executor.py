"""An executor's pod answers for what only it reaches: its database, and its snapshots."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from holdfast.chaos.faults.remote_store_faults import RemoteStoreTarget
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.kubernetes.in_executor import InExecutor, PodStores
from holdfast.chaos.targets.kubernetes.scripts import REMOTE_STORES, SNAPSHOT_FILES
from holdfast.chaos.targets.kubernetes.snapshot_store import PodSnapshotTarget
from holdfast.chaos.targets.kubernetes.stores import release_stores
from holdfast.cli.in_pod.snapshots import JobSnapshots
from holdfast.config.settings import RemoteSettings
from holdfast.deploy.kubernetes.client import Executed
from holdfast.errors import Refused, Retriable
from holdfast.state.snapshots.manifest import Manifest, SnapshotFile
from holdfast.state.table_store import StorePosition
from holdfast.types.components import EXECUTOR, REMOTE_STORE, SNAPSHOTS
from holdfast.types.stores import StoreDigest
from tests.simulation.fakes.database import Database, FakeStores
from tests.unit.chaos.test_nemesis import Place
from tests.unit.deploy.fake_kube import JOB, NAME, FakeKube

Answers = dict[str, Callable[..., object]]
CONTENTS = {"000007.sst": b"rows of a table", "CURRENT": b"MANIFEST"}


@pytest.fixture
def kube() -> FakeKube:
    made = FakeKube()
    made.add_job()
    return made


def _answers(kube: FakeKube, module: str, answers: Answers) -> InExecutor:
    """The module in a pod does what these functions do, by its first argument."""

    def answer(_: dict[str, Any], command: Sequence[str]) -> Executed:
        what, properties, *arguments = command[3:]
        assert properties == "/etc/holdfast/job/properties.yaml"
        return Executed(0, orjson.dumps(answers[what](*arguments)).decode(), "")

    kube.answers[module] = answer
    return InExecutor(JOB, NAME, kube)


# -- the database ------------------------------------------------------------------------------


def test_all_stores_of_the_job_are_removed_by_an_executor(kube: FakeKube) -> None:
    database = Database()
    for name in ("movies/ctas_t/0", "movies/ctas_t/1", "other/ctas_t/0"):
        database.open(name, None).write([(b"k", b"v")], [])
    stores = FakeStores(database, RemoteSettings("redis://db:6379"), "movies")
    pods = _answers(kube, REMOTE_STORES, {"list": stores.stores, "remove": stores.delete_all})
    target = RemoteStoreTarget(Place(), lambda: PodStores(pods))
    (victim,) = target.victims(REMOTE_STORE)
    assert target.strike(victim, Fault.EMPTY_STORES) == "2 stores removed"
    assert target.landed(victim, Fault.EMPTY_STORES).landed
    assert list(database.content) == ["other/ctas_t/0"]
    asked = {did[1] for did in kube.did if did[0] == "run"}
    assert asked == {f"{NAME}-executor-0"}, "one of them is enough"


def test_stores_in_a_database_are_read_by_one_executor(kube: FakeKube) -> None:
    store = {"application_id": "app", "query_id": "q", "partition": 0, "rows": 2, "position": 9}
    _answers(kube, REMOTE_STORES, {"digests": lambda: [{**store, "digest": "aa", "volume": -1}]})
    found = release_stores(JOB, NAME, "app", kube, remote=True)
    assert found == {("q", 0): [StoreDigest("app", "q", 0, 2, 9, "aa", -1)]}


def test_without_an_executor_nothing_is_seen_and_nothing_lands(kube: FakeKube) -> None:
    pods = _answers(kube, REMOTE_STORES, {"list": lambda: [["app", "q", 0]]})
    target = RemoteStoreTarget(Place(), lambda: PodStores(pods))
    assert target.victims(REMOTE_STORE)
    for name in ("executor-0", "executor-1"):
        kube.there[JOB, f"{NAME}-{name}"]["metadata"]["deletionTimestamp"] = "now"
    assert target.victims(REMOTE_STORE) == []
    with pytest.raises(Retriable, match="No executor of movies runs"):
        PodStores(pods).delete_all()


@pytest.mark.parametrize(("status", "told"), [(1, "failed in .*: no password"), (None, "ended")])
def test_a_module_that_fails_is_told(kube: FakeKube, status: int | None, told: str) -> None:
    kube.answers[REMOTE_STORES] = lambda *_: Executed(status, "", "no password\n")
    with pytest.raises(Retriable, match=told):
        PodStores(InExecutor(JOB, NAME, kube)).stores()


def test_a_release_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused):
        PodStores(InExecutor(JOB, NAME, FakeKube())).stores()


# -- snapshots ---------------------------------------------------------------------------------


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
def target(kube: FakeKube, root: Path) -> PodSnapshotTarget:
    snapshots = JobSnapshots(str(root), "app")
    answers: Answers = {
        "list": snapshots.newest,
        "damage": snapshots.damage,
        "wrong": lambda *paths: snapshots.wrong(paths),
    }
    return PodSnapshotTarget(Place(), _answers(kube, SNAPSHOT_FILES, answers))


def _wrong(root: Path) -> list[bytes]:
    everything = [path for path in root.rglob("files/*") if path.is_file()]
    wrong = [p for p in everything if hashlib.sha256(p.read_bytes()).hexdigest() != p.name]
    return sorted(path.read_bytes() for path in wrong)


def test_the_newest_snapshots_are_damaged_and_an_executor_loses_its_volume(
    target: PodSnapshotTarget, root: Path
) -> None:
    (victim,) = target.victims(SNAPSHOTS)
    assert not target.landed(victim, Fault.DAMAGE_SNAPSHOT).landed
    assert target.strike(victim, Fault.DAMAGE_SNAPSHOT).startswith("a byte of 2 files changed; ")
    assert {len(data) for data in _wrong(root)} == {21, 15}
    assert not _wrong(root / "other")
    assert target.landed(victim, Fault.DAMAGE_SNAPSHOT).evidence.startswith("2 of 2 files are")


def test_a_second_try_does_not_repair_them(target: PodSnapshotTarget, root: Path) -> None:
    (victim,) = target.victims(SNAPSHOTS)
    target.strike(victim, Fault.DAMAGE_SNAPSHOT)
    before = _wrong(root)
    target.strike(victim, Fault.DAMAGE_SNAPSHOT)
    assert _wrong(root) == before
    assert target.landed(victim, Fault.DAMAGE_SNAPSHOT).landed


def test_a_file_that_is_gone_is_wrong(target: PodSnapshotTarget, root: Path) -> None:
    (path, *_) = (root / "app" / "ctas_t" / "1" / "files").iterdir()
    snapshots = JobSnapshots(str(root), "app")
    assert snapshots.wrong([str(path)]) == []
    path.unlink()
    assert snapshots.wrong([str(path)]) == [str(path)]


def test_a_job_without_snapshots_has_no_victim(kube: FakeKube, tmp_path: Path) -> None:
    snapshots = JobSnapshots(str(tmp_path), "app")
    pods = _answers(kube, SNAPSHOT_FILES, {"list": snapshots.newest, "damage": snapshots.damage})
    target = PodSnapshotTarget(Place(), pods)
    assert target.victims(SNAPSHOTS) == []
    assert [victim.component for victim in target.victims(EXECUTOR)] == [EXECUTOR] * 2


def test_what_it_cannot_do_is_refused(target: PodSnapshotTarget) -> None:
    (victim,) = target.victims(SNAPSHOTS)
    assert target.faults[SNAPSHOTS] == {Fault.DAMAGE_SNAPSHOT}
    with pytest.raises(Refused, match="cannot be done to snapshots here"):
        target.strike(victim, Fault.CUT_OFF)
