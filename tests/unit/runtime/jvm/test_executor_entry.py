"""The entry point of executors' pods: when Java starts, with what, and how the pod ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from holdfast.runtime.jvm import session
from tests.unit.deploy.local_job import until

ROOT = Path(__file__).parents[4]
ENTRY = ROOT / "k8s/images/holdfast/bin/holdfast-executor"
JAVA = """#!/bin/bash
env > {tmp}/environment; printf '%s\\n' "$@" > {tmp}/arguments
touch "$EXECUTOR_READY_FILE"; echo began >> {tmp}/began
{body}
"""
Enter = Callable[[str, int], subprocess.Popen[bytes]]


@pytest.fixture
def port() -> Iterator[int]:
    """A driver that answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def enter(tmp_path: Path) -> Iterator[Enter]:
    """Runs the entry point in a folder of its own, with a Java that does what a script says."""
    script = tmp_path / "entry"
    script.write_text(ENTRY.read_text().replace("/tmp/", f"{tmp_path}/"))
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    begun: list[subprocess.Popen[bytes]] = []

    def enter(body: str, at: int) -> subprocess.Popen[bytes]:
        java.write_text(JAVA.format(tmp=tmp_path, body=body))
        java.chmod(0o755)
        env = os.environ | {
            "DRIVER_HOST": "127.0.0.1", "DRIVER_PORT": str(at), "SPARK_APPLICATION_ID": "a",
            "SPARK_EXECUTOR_POD_NAME": "a-executor-0", "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
            "JAVA_HOME": str(java.parents[1]), "SPARK_HOME": str(tmp_path), "PYTHONPATH": "/app",
        }  # fmt: skip
        with (tmp_path / "log").open("wb") as log:
            begun.append(subprocess.Popen(["bash", script], env=env, stdout=log, stderr=log))
        return begun[-1]

    yield enter
    for process in begun:
        process.terminate()  # it ends its Java
        process.wait(30)


def test_java_starts_once_the_driver_answers_and_ends_with_the_pod(
    enter: Enter, port: int, tmp_path: Path
) -> None:
    pod = enter("exec sleep 600", port)
    until((tmp_path / "began").exists, "Java")
    assert (tmp_path / "executor.ready").exists()
    pid = int((tmp_path / "executor.pid").read_text())
    pod.terminate()
    assert pod.wait(30) == 0
    until(lambda: not Path(f"/proc/{pid}/cmdline").exists(), "Java's end")


def test_a_pod_waits_for_the_next_driver_and_is_not_ready_meanwhile(
    enter: Enter, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as driver:
        at = int(driver.getsockname()[1])
        pod = enter("exec sleep 600", at)
        until((tmp_path / "began").exists, "Java")
    os.kill(int((tmp_path / "executor.pid").read_text()), signal.SIGKILL)
    until(lambda: not (tmp_path / "executor.ready").exists(), "not ready")
    assert pod.poll() is None
    with socket.create_server(("127.0.0.1", at)):
        until(lambda: (tmp_path / "began").read_text() == "began\nbegan\n", "Java again")
    assert pod.poll() is None


def test_java_that_dies_young_three_times_in_a_row_ends_the_pod(
    enter: Enter, port: int, tmp_path: Path
) -> None:
    """Once may be a driver that was about to go; the kubelet's pauses would be in the way then."""
    assert enter("exit 7", port).wait(60) == 7
    assert (tmp_path / "began").read_text().splitlines() == ["began"] * 3
    assert not (tmp_path / "executor.ready").exists()


def _properties(arguments: list[str]) -> dict[str, str]:
    return dict(a.removeprefix("-D").split("=", 1) for a in arguments if a.startswith("-Dspark."))


def test_java_and_its_environment_are_those_that_a_driver_would_give(
    enter: Enter, port: int, tmp_path: Path
) -> None:
    """The driver's settings come too late for what the first question and the process need."""
    enter("exec sleep 600", port)
    until((tmp_path / "began").exists, "Java")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    given = _properties(arguments)
    wanted: Mapping[str, str] = session._FIXED | session._KUBERNETES
    assert {k: wanted[k] for k in given if k.startswith("spark.network.")} == {
        k: v for k, v in given.items() if k.startswith("spark.network.")
    }
    assert given["spark.authenticate"] == wanted["spark.authenticate"]
    assert re.fullmatch(r"[1-5]s", given["spark.rpc.io.connectionCreationTimeout"])
    assert {session._SMALL_HEAP, session._ONE_COMPILER} <= set(arguments)
    environment = dict(
        line.split("=", 1)
        for line in (tmp_path / "environment").read_text().splitlines()
        if "=" in line
    )
    for key, value in session._FIXED.items():
        if name := key.partition("spark.executorEnv.")[2]:
            assert environment.get(name) == value, name
