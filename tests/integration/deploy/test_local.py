"""A local deployment from its first day to its last: real Kafka, real Spark, the real commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson
import psutil
import pytest

from holdfast.cli.main import main
from holdfast.deploy.local.target import LocalDeployment
from holdfast.errors import Refused
from holdfast.local.broker import BrokerStatus
from holdfast.local.processes import session_members
from holdfast.transport.producer import Producer
from tests.support.strange_folder import strange_folder

pytestmark = pytest.mark.timeout(900)
WAIT_S = 240.0  # a slow machine is slow, not wrong


class Job:
    """The commands about one deployment."""

    def __init__(self, kafka: BrokerStatus, home: Path, topic: str) -> None:
        self.servers, self.home, self.topic = kafka.bootstrap_servers, home, topic
        self.name = "orders-" + topic.rpartition("-")[2]
        self.folder = strange_folder(home)  # what a user's own folder may be

    def sql(self, where: str = "") -> str:
        return (
            f"SET 'state.partitions' = '2'; CREATE STREAM s (k STRING, v INT) WITH (KAFKA_TOPIC="
            f"'{self.topic}', VALUE_FORMAT='JSON', PARTITIONS=1); CREATE TABLE t WITH (KAFKA_TOPIC="
            f"'{self.topic}-t') AS SELECT k, COUNT(*) AS n FROM s {where} GROUP BY k;"
        )

    def produce(self, records: int) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for n in range(records):
            value = orjson.dumps({"k": f"k{n % 7}", "v": n})
            producer.send(self.topic, b"k", value)
        producer.flush()

    def run(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """(exit status, JSON, standard error)"""
        command = [sys.executable, "-P", "-m", "holdfast.cli.main", *arguments, "--json"]
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=WAIT_S, cwd=self.folder
        )
        return ran.returncode, json.loads(ran.stdout or "{}"), ran.stderr

    def deploy(self, *more: str, sql: str = "") -> tuple[int, dict[str, Any], str]:
        servers = ["--set", f"bootstrap.servers={self.servers}"]
        sized = ["--executors", "1", "--timeout", f"{WAIT_S}"]
        return self.run(
            "deploy", self.name, "--sql", sql or self.sql(), *self.where(), *servers, *sized, *more
        )

    def where(self) -> list[str]:
        return ["--home", str(self.home)]

    def status(self) -> dict[str, Any]:
        """Returns what the command prints; a process for each look would slow the job down."""
        with redirect_stdout(StringIO()) as told:
            code = main(["status", self.name, *self.where(), "--json"])
        assert code == 0
        found: dict[str, Any] = json.loads(told.getvalue())
        return found

    def until(
        self,
        holds: Callable[[dict[str, Any]], bool],
        what: str,
        process: subprocess.Popen[str] | None = None,
    ) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_S
        while not holds(found := self.status()):
            assert process is None or process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, f"{what}: {found}\n{self.log()}"
            time.sleep(0.5)
        return found

    def log(self) -> str:
        file = self.home / "deploy" / self.name / "driver.log"
        return file.read_text()[-6000:] if file.exists() else ""


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Job]:
    made = Job(kafka, tmp_path, kafka_topic_name("in")[-40:])
    yield made
    made.run("undeploy", made.name, *made.where())


def _python_of_executors(job: Job) -> int:
    """Their Python workers, each of which has a daemon as its parent."""
    found = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            ours = str(job.home) in process.environ().get("SPARK_EXECUTOR_DIRS", "")
            parent = process.parent()
            daemon = "holdfast.runtime.jvm.python_daemon" in process.cmdline()
            found += ours and daemon and parent is not None and "python" in parent.name()
    return found


def test_a_deployment_lives_through_kills_changes_and_mistakes(job: Job) -> None:
    code, absent, said = job.run("status", job.name, *job.where())
    assert (code, absent["state"]) == (0, "absent"), said
    code, first, said = job.deploy("--servers", "2")
    assert code == 0, said + job.log()
    assert (first["revision"], first["state"], first["ready"]) == (1, "running", True)

    job.produce(100)
    level = job.until(lambda s: s["caught_up"] and s["lag"] == 0, "it did not catch up")
    assert level["application_id"] == job.name
    assert _python_of_executors(job) == 1  # one worker reads and keeps state, in turns
    base = level["metrics_url"].removesuffix("/metrics")
    with urlopen(f"{base}/ready", timeout=5) as ready, urlopen(f"{base}/live", timeout=5) as live:
        assert (ready.status, live.status) == (200, 200)
    settings = ["--set", f"application.id={job.name}", "--set", f"bootstrap.servers={job.servers}"]
    code, smoke, said = job.run("smoke", "--sql", job.sql(), *settings, *job.where())
    assert code == 0, said
    assert (smoke["queries"][0]["committed"], smoke["queries"][0]["served"]) == (2, True)
    assert [one["running"] for one in level["servers"]] == [True, True]

    # A change that its rows do not fit touches nothing.
    code, refused, _ = job.deploy(sql=job.sql("WHERE v > 5"))
    assert (code, refused["error"]["kind"]) == (2, "IncompatibleStatement")
    assert job.status()["driver_pid"] == level["driver_pid"]

    # The supervisor starts a killed driver again, and so does that of a query server.
    os.kill(level["driver_pid"], signal.SIGKILL)
    os.kill(level["servers"][0]["pid"], signal.SIGKILL)
    back = job.until(lambda s: s["ready"] and s["starts"] == 2, "it did not come back")
    assert [(one["running"], one["restarts"]) for one in back["servers"]] == [(True, 1), (True, 0)]
    assert session_members(level["driver_pid"]) == []

    # A revision that fails after its start gives way to the one before.
    taken = job.servers.rpartition(":")[2]
    code, failed, said = job.deploy("--set", f"metrics.port={taken}")
    assert code == 2, said
    assert f"cannot listen on port {taken}" in failed["error"]["fact"]
    again = job.until(lambda s: s["ready"], "the one before did not come back")
    assert (again["revision"], again["supervisor_pid"] != back["supervisor_pid"]) == (1, True)
    assert again["servers"] == back["servers"], "they went on meanwhile"

    code, listed, _ = job.run("status", *job.where())
    assert (code, [one["name"] for one in listed]) == (0, [job.name])  # type: ignore[index]
    _the_end(job, again)


def _the_end(job: Job, last: dict[str, Any]) -> None:
    """There is nothing before the first revision: to roll it back is to undeploy it."""
    code, _, said = job.run("rollback", job.name, *job.where(), "--only-from", "9")
    assert code == 2
    assert f"{job.name} is at revision 1, not 9: it is not rolled back" in said
    code, gone, said = job.run("rollback", job.name, *job.where(), "--only-from", "1")
    assert (code, gone["state"]) == (0, "absent"), said
    assert session_members(last["driver_pid"]) == []
    assert session_members(last["supervisor_pid"]) == []
    for server in last["servers"]:
        with pytest.raises(OSError, match="refused"):
            urlopen(server["url"], timeout=5)
    assert any(job.home.glob(f"state/*/stores/{job.name}/*/*")), "its stores are kept"
    code, _, said = job.run("undeploy", job.name, *job.where())
    assert code == 2
    assert f"There is no deployment {job.name}" in said


def test_an_interrupted_deployment_leaves_nothing(job: Job) -> None:
    command = [sys.executable, "-m", "holdfast.cli.main", "deploy", job.name, "--sql", job.sql()]
    command += [*job.where(), "--set", f"bootstrap.servers={job.servers}", "--executors", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    started = job.until(lambda s: s.get("starts", 0) == 1, "it did not start", process)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, said
    assert session_members(started["supervisor_pid"]) == []
    assert session_members(started["driver_pid"]) == []
    assert job.status()["state"] == "absent"


def test_state_can_be_deleted_with_the_deployment(job: Job) -> None:
    code, _, said = job.deploy("--no-wait")
    assert code == 0, said
    store = job.home / "state" / "0" / "stores" / job.name / "q" / "0"
    other = job.home / "state" / "0" / "stores" / "other" / "q" / "0"
    for folder in (store, other):
        folder.mkdir(parents=True)
    code, _, said = job.run("undeploy", job.name, *job.where(), "--delete-state")
    assert code == 0, said
    assert not store.exists()
    assert other.exists()


@pytest.mark.parametrize("name", ["", "Upper", "under_score", "-x", "x" * 46, "../up"])
def test_names_are_those_of_helm_releases(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="no name of a deployment"):
        LocalDeployment(tmp_path, name)
