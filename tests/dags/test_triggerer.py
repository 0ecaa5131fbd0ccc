"""A whole Airflow with one slot for tasks: a task that waits for its pod leaves it to others."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.dags.pod_api import PodApi

WAIT_S = 400.0
DAGS = """
from datetime import timedelta

from airflow.sdk import DAG, task

from holdfast_airflow import steps
from holdfast_airflow.operator import HoldfastOperator

ASKED = {
    "name": "movies", "target": "kubernetes", "sql": "SELECT 1;", "namespace": "holdfast",
    "image": "holdfast:0", "bootstrap_servers": "kafka:9092", "values": {}, "properties": {},
}
# A busy machine's API server may be late for a task that begins.
LATE = {"retries": 20, "retry_delay": timedelta(seconds=1)}
with DAG(
    "waits", schedule=None, params=ASKED, default_args=LATE, is_paused_upon_creation=False
):
    HoldfastOperator(task_id="topics", step=steps.TOPICS, poll_interval=1)

with DAG("other", schedule=None, default_args=LATE, is_paused_upon_creation=False):

    @task
    def works():
        return 1

    works()
"""


class Airflow:
    """An Airflow in a home of its own: scheduler, triggerer, API server and DAG processor."""

    def __init__(self, home: Path, environment: dict[str, str], port: int) -> None:
        self._home, self._environment, self._port = home, environment, port
        self._log = (home / "standalone.log").open("wb")
        self._process = subprocess.Popen(
            [f"{sys.prefix}/bin/airflow", "standalone"],
            env=environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def state(self, dag: str) -> str | None:
        """The state of the only task of a DAG; None: there is no such task yet."""
        return self._found("select state from task_instance where dag_id = ?", dag)

    def _found(self, asked: str, dag: str) -> str | None:
        path = self._home / "airflow.db"
        if not path.exists():
            return None
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
            try:
                found = database.execute(asked, (dag,)).fetchone()
            except sqlite3.OperationalError:  # it is being made
                return None
        return None if found is None else str(found[0])

    def until(self, dag: str, state: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while (now := self.state(dag)) != state:
            assert time.monotonic() < deadline, f"{dag} is {now}:\n{self.said()}"
            assert now != "failed", self.said()
            assert self._process.poll() is None, self.said()
            time.sleep(0.5)

    def await_answers(self) -> None:
        """Waits for its API server: a task that begins before has failed."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                assert time.monotonic() < deadline, self.said()
                assert self._process.poll() is None, self.said()
                time.sleep(0.5)
            else:
                return

    def trigger(self, dag: str) -> None:
        """Begins a run, once the DAG is known: each attempt of the command takes seconds of CPU."""
        deadline = time.monotonic() + WAIT_S
        while self._found("select dag_id from serialized_dag where dag_id = ?", dag) is None:
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.5)
        line = [f"{sys.prefix}/bin/airflow", "dags", "trigger", dag]
        while subprocess.run(line, env=self._environment, check=False).returncode:
            assert time.monotonic() < deadline, self.said()

    def said(self) -> str:
        return (self._home / "standalone.log").read_text(errors="replace")[-8000:]

    def stop(self) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        with suppress(ProcessLookupError):  # its scheduler may outlive it
            os.killpg(self._process.pid, signal.SIGKILL)
        self._log.close()


def _free_ports(count: int) -> list[str]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [str(each.getsockname()[1]) for each in taken]
    for each in taken:
        each.close()
    return ports


@pytest.fixture
def start(dags_folder: Path, tmp_path: Path) -> Iterator[Callable[[PodApi], Airflow]]:
    started: list[Airflow] = []

    def run(api: PodApi) -> Airflow:
        (tmp_path / "dags").mkdir()
        (tmp_path / "dags" / "both.py").write_text(DAGS, encoding="utf-8")
        web, trigger_log, worker_log = _free_ports(3)
        own = {
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
            "AIRFLOW__CORE__PARALLELISM": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{web}/execution/",
            "AIRFLOW__API__PORT": web,
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": trigger_log,
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": worker_log,
            "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": api.connection,
            "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
            "PYTHONPATH": str(dags_folder),
        }
        started.append(Airflow(tmp_path, {**os.environ, **own}, int(web)))
        return started[-1]

    yield run
    for each in started:
        each.stop()


@pytest.mark.timeout(900)
def test_another_task_has_the_only_slot_while_one_waits_for_its_pod(
    start: Callable[[PodApi], Airflow],
) -> None:
    with PodApi() as api:
        airflow = start(api)
        airflow.await_answers()
        airflow.trigger("waits")
        airflow.until("waits", "deferred")
        assert len(api.pods) == 1, "its pod runs"
        airflow.trigger("other")
        airflow.until("other", "success")
        assert airflow.state("waits") == "deferred"
        api.end(0, outcome='{"ok": true}')
        airflow.until("waits", "success")
        assert len(api.deleted) == 1
