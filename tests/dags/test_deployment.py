"""A real run on this machine: Airflow, Kafka, Spark, and `holdfast` as its users call it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAME = "movies"
Holdfast = Callable[..., str]


@pytest.fixture
def holdfast(root: Path, tmp_path: Path) -> Iterator[Holdfast]:
    """The command line, with a broker in a home of its own; nothing of it is left at the end."""
    command = os.environ.get("HOLDFAST_COMMAND", str(root / ".venv" / "bin" / "holdfast"))

    def run(*arguments: str) -> str:
        line = [command, *arguments, f"--home={tmp_path}"]
        done = subprocess.run(line, cwd=root, text=True, stdout=subprocess.PIPE, check=True)
        return done.stdout

    run("kafka", "start")
    try:
        yield run
    finally:
        if json.loads(run("status", NAME, "--json"))["state"] != "absent":
            run("undeploy", NAME)
        run("kafka", "stop")


@pytest.fixture
def trigger(root: Path, tmp_path: Path) -> Callable[[str, dict[str, Any]], str]:
    """Runs a DAG to its end as jobs/docs/airflow.md says; returns its log."""
    own = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW_VENV": str(root / ".venv-airflow")}

    def run(dag: str, conf: dict[str, Any]) -> str:
        given = json.dumps({"target": "local", "name": NAME, "home": str(tmp_path), **conf})
        line = [str(root / ".ci" / "airflow"), "dags", "test", dag, "--conf", given]
        done = subprocess.run(
            line,
            env={**os.environ, **own},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


@pytest.mark.timeout(900)
def test_a_table_is_deployed_is_right_and_is_undeployed(
    holdfast: Holdfast, trigger: Callable[[str, dict[str, Any]], str]
) -> None:
    holdfast("produce", "movies")
    file = "jobs/examples/movies.sql"
    size = {"executors": 1, "state_partitions": 2, "servers": 1}
    log = trigger("deploy_state_table", {"sql_file": file, **size})
    assert "Query ctas_movie_tickets_sold" in log, "the plan"
    assert '"served":true' in log.replace("\\", ""), "the newest result was read back by its key"
    assert "movies is running; lag: 0 records" in log
    status = json.loads(holdfast("status", NAME, "--json"))
    assert (status["state"], status["revision"], status["caught_up"]) == ("running", 1, True)
    assert [server["running"] for server in status["servers"]] == [True]
    holdfast("verify", file, f"--set=application.id={NAME}", "--set=state.partitions=2")

    trigger("undeploy_state_table", {})
    assert json.loads(holdfast("status", NAME, "--json"))["state"] == "absent"
