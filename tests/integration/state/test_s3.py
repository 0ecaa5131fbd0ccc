"""Snapshots in a real S3 server: what an archive needs of it, and how long an outage lasts."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.errors import Refused, SnapshotDamaged, SnapshotsUnavailable
from holdfast.state.snapshots.archive import Archive
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.snapshots.places import opened
from holdfast.state.table_store import StorePosition
from tests.support.servers.s3_server import S3Server, _check_jars

STORE = "app/ctas_t/0"
TOPIC = "4VPab5/8RoCls6+oUepmWg"
_HANGS_S = 30.0  # three attempts of 3 s, and the waits between them


@pytest.fixture(autouse=True)
def _credentials(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)


def _take(archive: Archive, folder: Path, offset: int) -> Manifest:
    files = archive.files_of(folder)
    manifest = Manifest(STORE, StorePosition(TOPIC, offset, 1, "fp", STORE), 1, files)
    archive.upload(folder, files)
    assert archive.name(manifest)
    return manifest


def _folder(path: Path, *sizes: int) -> Path:
    path.mkdir()
    for n, size in enumerate(sizes):
        (path / f"{n:06d}.sst").write_bytes(os.urandom(size))
    return path


def test_what_is_uploaded_comes_back(s3: S3Server, tmp_path: Path) -> None:
    s3.make_bucket("archive")
    archive = Archive(s3.uri("archive", "jobs of a team"), STORE)
    folder = _folder(tmp_path / "copy", 20 << 20, 0, 5)  # in parts, empty, and small
    assert list(archive.snapshots(TOPIC)) == []
    taken = _take(archive, folder, 7)
    assert archive.upload(folder, taken.files) == 0
    (folder / "000003.sst").write_bytes(b"another")
    later = _take(archive, folder, 8)
    assert [m.position.offset for m in archive.snapshots(TOPIC)] == [8, 7]
    archive.fetch(later, tmp_path / "fetched", lambda _: None)
    fetched = {p.name: p.read_bytes() for p in (tmp_path / "fetched").iterdir()}
    assert fetched == {p.name: p.read_bytes() for p in folder.iterdir()}
    archive.retain(TOPIC, 1)
    assert list(archive.snapshots(TOPIC)) == [later]


def test_a_missing_object_is_damage_and_no_outage(s3: S3Server, tmp_path: Path) -> None:
    s3.make_bucket("holes")
    uri = s3.uri("holes")
    taken = _take(Archive(uri, STORE), _folder(tmp_path / "copy", 100), 7)
    system, root = opened(uri)
    system.delete_file(f"{root}/{STORE}/files/{taken.files[0].sha256}")
    with pytest.raises(SnapshotDamaged, match="is missing"):
        Archive(uri, STORE).fetch(taken, tmp_path / "fetched", lambda _: None)


def test_a_wrong_key_and_a_missing_bucket_are_told(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(SnapshotsUnavailable, match="NO_SUCH_BUCKET"):
        _take(Archive(s3.uri("nowhere", "a"), STORE), _folder(tmp_path / "copy", 100), 7)
    s3.make_bucket("locked")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another's")
    with pytest.raises(SnapshotsUnavailable, match="SIGNATURE_DOES_NOT_MATCH") as caught:
        list(Archive(s3.uri("locked", "b"), STORE).snapshots(TOPIC))
    assert "another's" not in str(caught.value)


@pytest.mark.parametrize(("down", "up"), [("stop", "start"), ("pause", "resume")])
def test_an_outage_is_told_in_time_and_loses_nothing(
    s3: S3Server, tmp_path: Path, down: str, up: str
) -> None:
    s3.make_bucket(down)
    archive = Archive(s3.uri(down), STORE)
    folder = _folder(tmp_path / "copy", 100)
    taken = _take(archive, folder, 7)
    getattr(s3, down)()
    began = time.monotonic()
    try:
        with pytest.raises(SnapshotsUnavailable, match="NETWORK_CONNECTION"):
            list(archive.snapshots(TOPIC))
        assert time.monotonic() - began < _HANGS_S
    finally:
        getattr(s3, up)()
    assert list(archive.snapshots(TOPIC)) == [taken]


def test_other_jars_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s3proxy-4.1.0.jar").write_bytes(b"another's")
    with pytest.raises(Refused, match="are not the pinned ones"):
        _check_jars(tmp_path)
