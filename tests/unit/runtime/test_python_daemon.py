"""PySpark's daemon of Python workers, a little quieter."""

from __future__ import annotations

import socket

import pytest
from pyspark import daemon

from holdfast.runtime import python_daemon


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_socket_that_spark_closed_ends_the_worker(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def loop(_sock: socket.socket, _authenticated: bool) -> int:
        raise error

    monkeypatch.setattr(python_daemon, "_worker", loop)
    with socket.socket() as sock:
        assert python_daemon.worker(sock, True) == 1


def test_whatever_else_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def loop(_sock: socket.socket, _authenticated: bool) -> int:
        raise OSError("disk")

    monkeypatch.setattr(python_daemon, "_worker", loop)
    with socket.socket() as sock, pytest.raises(OSError, match="disk"):
        python_daemon.worker(sock, True)


def test_it_wraps_the_loop_of_this_pyspark() -> None:
    assert python_daemon._worker is daemon.worker
    assert callable(daemon.manager)
