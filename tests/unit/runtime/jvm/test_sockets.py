"""Sockets of jobs that were killed are cleared away, those of jobs that live are not."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from holdfast.runtime.jvm import sockets
from holdfast.runtime.jvm.sockets import remove_dead, socket_folder


def _socket(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    return made


def test_only_what_no_process_has_any_more_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    alive, dead = Path(".alive.sock"), Path(".dead.sock")
    other = Path(".file.sock")
    other.touch()
    with _socket(alive):
        _socket(dead).close()
        assert remove_dead(tmp_path) == [tmp_path / dead]
        assert sorted(path.name for path in tmp_path.iterdir()) == [alive.name, other.name]
    monkeypatch.setattr(sockets, "_BOUND", tmp_path / "none")
    assert remove_dead(tmp_path) == [], "nobody knows who lives"


def test_a_home_with_a_long_path_has_its_sockets_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert socket_folder(Path("/home/me/spark/tmp")) == Path("/home/me/spark/tmp")
    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        long = tmp_path / ("x" * 60)
        found = socket_folder(long)
        assert found is not None
        assert found.parent == Path(short)
        assert found.stat().st_mode & 0o777 == 0o700
        assert socket_folder(long) == found
        found.rmdir()
        found.symlink_to(tmp_path)
        assert socket_folder(long) is None, "somebody else has made it"
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert socket_folder(long) is None
