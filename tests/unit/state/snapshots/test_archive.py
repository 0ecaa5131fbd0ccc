"""Snapshots of real stores in a folder, and what may become of their files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.config.settings import RocksDbSettings
from holdfast.errors import Refused, SnapshotDamaged, SnapshotsUnavailable
from holdfast.state.rocksdb import RocksDbStore
from holdfast.state.snapshots import archive as archives
from holdfast.state.snapshots.archive import Archive
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.table_store import StorePosition

STORE = "app/ctas_t/3"
TOPIC = "4VPab5/8RoCls6+oUepmWg=="  # as Kafka's clients tell it
# RocksDB's smallest, so that a few rows make several files.
SETTINGS = RocksDbSettings(memtable_bytes=64 << 10, write_buffer_bytes=1 << 20)


class Written:
    """A store and its archive."""

    def __init__(self, folder: Path) -> None:
        self.uri = folder / "snapshots"
        self.root = self.uri / STORE
        self.store = RocksDbStore(folder / "store", SETTINGS)
        self.archive = Archive(str(self.uri), STORE)
        self._folder = folder
        self._copies = 0
        self.rows = 0

    def write(self, rows: int) -> None:
        for n in range(self.rows, self.rows + rows):
            self.store.write([(b"%06d" % n, b"%d" % n * 50)], [])
        self.rows += rows

    def copy(self) -> Path:
        self._copies += 1
        folder = self._folder / f"copy{self._copies}"
        self.store.copy_to(folder)
        return folder

    def take(self, offset: int, topic_id: str = TOPIC) -> tuple[Manifest, int]:
        """A snapshot, and the bytes that had to be uploaded for it."""
        folder = self.copy()
        files = self.archive.files_of(folder)
        position = StorePosition(topic_id, offset, 1_000, "fp", STORE)
        manifest = Manifest(STORE, position, 2_000, files)
        uploaded = self.archive.upload(folder, files)
        assert self.archive.name(manifest)
        shutil.rmtree(folder)
        return manifest, uploaded

    def offsets(self, topic_id: str = TOPIC) -> list[int]:
        return [m.position.offset for m in Archive(str(self.uri), STORE).snapshots(topic_id)]

    def fetched(self, manifest: Manifest) -> list[tuple[bytes, bytes]]:
        """The rows of a snapshot, through a new archive as on another machine."""
        folder = self._folder / "fetched"
        shutil.rmtree(folder, ignore_errors=True)
        Archive(str(self.uri), STORE).fetch(manifest, folder, lambda _: None)
        store = RocksDbStore(folder, SETTINGS)
        try:
            return list(store.scan(b"", None))
        finally:
            store.close()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    made = Written(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=1_000.0)
    monkeypatch.setattr(archives, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def test_a_snapshot_is_the_store_as_it_was(written: Written) -> None:
    written.write(500)
    before = list(written.store.scan(b"", None))
    manifest, _ = written.take(10)
    written.write(500)
    assert written.fetched(manifest) == before
    assert list(Archive(str(written.uri), STORE).snapshots(TOPIC)) == [manifest]


def test_the_store_goes_on_while_its_copy_is_there(written: Written) -> None:
    written.write(100)
    folder = written.copy()
    written.store.wipe()
    store = RocksDbStore(folder, SETTINGS)
    assert len(list(store.scan(b"", None))) == 100
    store.close()


def test_a_file_is_uploaded_once(written: Written) -> None:
    written.write(2_000)
    manifest, first = written.take(10)
    assert first == manifest.size
    again, second = written.take(11)
    assert second < manifest.size / 3, "only what RocksDB writes anew at a copy"
    written.write(10)
    later, third = written.take(12)
    shared = {f.sha256 for f in manifest.files} & {f.sha256 for f in later.files}
    assert third == sum(f.size for f in later.files if f.sha256 not in shared) > 0
    assert len(written.fetched(again)), "an older one is whole as before"


def test_unchanged_files_are_not_read_again(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.write(2_000)
    written.take(10)
    read: list[str] = []
    digest = archives._digest

    def counted(path: Path) -> str:
        read.append(path.suffix)
        return digest(path)

    monkeypatch.setattr(archives, "_digest", counted)
    written.take(11)
    assert read
    assert ".sst" not in read


def _one(path: Path) -> Path:
    """The largest file below."""
    return max((p for p in path.iterdir()), key=lambda p: p.stat().st_size)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "changed": _flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "another": lambda path: path.write_bytes(b"x" * path.stat().st_size),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_seen(written: Written, damage: str) -> None:
    written.write(2_000)
    manifest, _ = written.take(10)
    DAMAGES[damage](_one(written.root / "files"))
    with pytest.raises(SnapshotDamaged):
        written.fetched(manifest)


@pytest.mark.parametrize("damage", ["cut", "empty", "another"])
def test_a_damaged_manifest_is_passed_over(written: Written, damage: str) -> None:
    written.write(10)
    written.take(10)
    written.take(20)
    newest = max((written.root / "manifests").iterdir())
    DAMAGES[damage](newest)
    assert written.offsets() == [10]


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "/x", "CURRENT\n"])
def test_a_manifest_cannot_write_outside_the_store(written: Written, name: str) -> None:
    written.write(10)
    manifest, _ = written.take(10)
    (path,) = (written.root / "manifests").iterdir()
    text = manifest.to_bytes().decode().replace('"CURRENT"', f'"{name}"'.replace("\n", "\\n"))
    path.write_text(text)
    assert text != manifest.to_bytes().decode()
    assert written.offsets() == []


def test_the_furthest_snapshot_comes_first_whenever_it_was_taken(written: Written) -> None:
    for offset in (9, 100, 20):
        written.write(10)
        written.take(offset)
    assert written.offsets() == [100, 20, 9]
    assert written.offsets("another") == []


def test_only_so_many_are_kept_and_their_files_stay(
    written: Written, clock: SimpleNamespace
) -> None:
    taken = []
    for offset in range(1, 6):
        written.write(300)
        taken.append(written.take(offset)[0])
        written.archive.retain(TOPIC, 2)
        clock.s += 700.0
    written.archive.retain(TOPIC, 2)
    assert written.offsets() == [5, 4]
    left = {p.name for p in (written.root / "files").iterdir()}
    assert left == {f.sha256 for m in taken[3:] for f in m.files}
    assert all(written.fetched(m) for m in taken[3:])


def test_a_file_that_no_manifest_names_is_removed_after_a_while(
    written: Written, clock: SimpleNamespace
) -> None:
    """Another writer may be about to name it."""
    written.write(10)
    written.take(1)
    stray = written.root / "files" / ("0" * 64)
    stray.write_bytes(b"left by a killed process")
    written.archive.retain(TOPIC, 1)
    clock.s += 599.0
    written.archive.retain(TOPIC, 1)
    assert stray.exists()
    stray.write_bytes(b"written again")  # by somebody who is going to name it
    clock.s += 2.0
    written.archive.retain(TOPIC, 1)
    assert stray.exists(), "its time starts again"
    clock.s += 601.0
    written.archive.retain(TOPIC, 1)
    assert not stray.exists()


def test_no_file_is_removed_while_a_manifest_cannot_be_read(
    written: Written, clock: SimpleNamespace
) -> None:
    written.write(10)
    written.take(1)
    written.take(2)
    oldest = min((written.root / "manifests").iterdir())
    oldest.write_bytes(b"{")
    files = {p.name for p in (written.root / "files").iterdir()}
    for _ in range(3):
        written.archive.retain(TOPIC, 2)
        clock.s += 700.0
    assert {p.name for p in (written.root / "files").iterdir()} == files


def test_snapshots_of_a_replaced_topic_stay_until_there_are_new_ones(written: Written) -> None:
    written.write(10)
    written.take(50, "former")
    written.archive.retain("former", 2)
    written.take(1)
    written.archive.retain(TOPIC, 2)
    assert (written.offsets(), written.offsets("former")) == ([1], [50])
    written.take(2)
    written.archive.retain(TOPIC, 2)
    assert (written.offsets(), written.offsets("former")) == ([2, 1], [])


def test_what_no_manifest_names_is_uploaded_again(written: Written) -> None:
    """A cleaner may be about to remove it."""
    written.write(2_000)
    folder = written.copy()
    files = written.archive.files_of(folder)
    size = written.archive.upload(folder, files)
    assert written.archive.upload(folder, files) == 0, "its own are known"
    assert Archive(str(written.uri), STORE).upload(folder, files) == size


def test_a_named_file_that_was_cut_is_uploaded_again(written: Written) -> None:
    written.write(2_000)
    manifest, _ = written.take(10)
    path = _one(written.root / "files")
    size = path.stat().st_size
    DAMAGES["cut"](path)
    written.take(11)
    assert path.stat().st_size == size
    assert written.fetched(manifest)


def test_a_manifest_is_not_written_long_after_the_last_look(
    written: Written, clock: SimpleNamespace
) -> None:
    written.write(10)
    folder = written.copy()
    files = written.archive.files_of(folder)
    written.archive.upload(folder, files)
    manifest = Manifest(STORE, StorePosition(TOPIC, 1, 1, "fp", STORE), 1, files)
    clock.s += 301.0
    assert not written.archive.name(manifest)
    assert written.offsets() == []
    written.archive.upload(folder, files)
    assert written.archive.name(manifest)


def test_an_empty_place_has_no_snapshots(tmp_path: Path) -> None:
    archive = Archive(f"file://{tmp_path}/nothing/here", STORE)
    assert list(archive.snapshots(TOPIC)) == []
    archive.retain(TOPIC, 1)


def test_a_place_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    archive = Archive(str(tmp_path / "file"), STORE)
    files = archive.files_of(tmp_path)
    with pytest.raises(SnapshotsUnavailable, match=str(tmp_path / "file")):
        archive.upload(tmp_path, files)


def test_a_volume_that_refuses_is_no_damage(written: Written, tmp_path: Path) -> None:
    written.write(10)
    manifest, _ = written.take(10)
    (tmp_path / "here").mkdir()
    with pytest.raises(Refused, match="here"):
        written.archive.fetch(manifest, tmp_path / "here", lambda _: None)


def test_a_download_can_be_given_up(written: Written, tmp_path: Path) -> None:
    class GivenUp(Exception):
        pass

    def told(_: int) -> None:
        raise GivenUp

    written.write(10)
    manifest, _ = written.take(10)
    with pytest.raises(GivenUp):
        written.archive.fetch(manifest, tmp_path / "new", told)
