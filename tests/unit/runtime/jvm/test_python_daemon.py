"""PySpark's daemon of Python workers, a little quieter."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from pyspark import daemon

from holdfast.runtime.jvm import python_daemon

# What a worker process does, as far as PySpark's own loop.
A_WORKER = """
import socket, sys
from holdfast.runtime import python_daemon
from pyspark import daemon
print("before", "pyspark.sql" in sys.modules, "pyspark.core.context" in sys.modules)

def loop(sock, authenticated):
    import pyspark
    print("in the loop", "pyspark.sql" in sys.modules, pyspark.SparkContext.__name__)
    return 7

python_daemon._worker = loop
with socket.socket() as sock:
    print(python_daemon.worker(sock, True), python_daemon.worker(sock, True))
"""


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """A worker sets its process's."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_spark_sql_is_loaded_in_workers_not_in_the_daemon() -> None:
    command = [sys.executable, "-c", A_WORKER]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    said = ["in the loop True SparkContext"]
    assert done.stdout.splitlines() == ["before False False", *said, *said, "7 7"]


def test_where_pyspark_is_loaded_already_it_stays_as_it_is() -> None:
    code = "import pyspark as p; context = p.SparkContext\n" + A_WORKER.replace(
        "return 7", "return int(pyspark is p and pyspark.SparkContext is context)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[0] == "before True True"
    assert done.stdout.splitlines()[-1] == "1 1"


def test_a_signal_to_a_young_worker_is_not_taken_for_one_to_the_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)  # the daemon's, which ends all its workers
    found = []
    monkeypatch.setattr(python_daemon, "_complete", lambda: found.append(_sigterm()))
    monkeypatch.setattr(python_daemon, "_worker", lambda *_: 0)
    with socket.socket() as sock:
        python_daemon.worker(sock, True)
    assert found == [signal.SIG_DFL]


def _sigterm() -> object:
    return signal.getsignal(signal.SIGTERM)


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
