"""Whole runs in Airflow, with a script in place of `holdfast`: the order of tasks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun

# Each command succeeds unless a test says otherwise.
GOOD = """
case $1 in
  status) echo '{"state": "running", "ready": true, "caught_up": true, "lag": 0}' ;;
  deploy) echo '{"revision": 3}' ;;
  explain) echo 'the plan' ;;
  *) echo '{"ok": true}' ;;
esac
"""
CONF = {"target": "local", "name": "movies", "sql": "SELECT 1;"}
Run = Callable[[str, dict[str, Any]], dict[str, str]]


@pytest.fixture
def run(dags_folder: Path, database: None, tmp_path: Path) -> Run:
    """Runs a DAG; returns the state of each of its tasks, and of the run as `run`."""

    def start(dag: str, conf: dict[str, Any]) -> dict[str, str]:
        bag = DagBag(dags_folder / f"{dag}.py", bundle_name="dags-folder")
        found: DagRun = bag.dags[dag].test(run_conf={"home": str(tmp_path), **conf})
        tasks = {task.task_id: str(task.state) for task in found.get_task_instances()}
        return {**tasks, "run": str(found.state)}

    return start


def _commands(calls: Path) -> list[str]:
    return [line.split()[0] for line in calls.read_text(encoding="utf-8").splitlines()]


def test_a_deployment_goes_through_every_step(run: Run, stand_in: Callable[[str], Path]) -> None:
    calls = stand_in(GOOD)
    states = run("deploy_state_table", CONF)
    assert states.pop("roll_back") == "skipped"
    assert set(states.values()) == {"success"}
    assert _commands(calls) == ["explain", "check", "topics", "deploy", "status", "smoke"]


def test_a_refused_statement_touches_nothing(run: Run, stand_in: Callable[[str], Path]) -> None:
    calls = stand_in('if [ "$1" = check ]; then echo "Error: No." >&2; exit 2; fi' + GOOD)
    states = run("deploy_state_table", CONF)
    assert (states["validate_and_explain"], states["run"]) == ("failed", "failed")
    assert _commands(calls) == ["explain", "check"], "a refusal is not tried again"


def test_a_deployment_that_undid_itself_is_not_rolled_back_further(
    run: Run, stand_in: Callable[[str], Path]
) -> None:
    body = """if [ "$1" = deploy ]; then echo '{"ok": false, "error": {}}'; exit 1; fi"""
    calls = stand_in(body + GOOD)
    states = run("deploy_state_table", CONF)
    assert (states["deploy"], states["roll_back"], states["run"]) == ("failed", "skipped", "failed")
    assert _commands(calls)[-1] == "deploy"


@pytest.mark.parametrize(
    ("failing", "body"),
    [
        ("smoke_check", 'if [ "$1" = smoke ]; then echo "Error: No markers." >&2; exit 2; fi'),
        (
            "wait_until_caught_up",
            """if [ "$1" = status ]; then echo '{"state": "stopped"}'; exit; fi""",
        ),
    ],
)
def test_a_deployment_that_is_not_right_is_rolled_back_and_the_run_fails(
    run: Run, stand_in: Callable[[str], Path], failing: str, body: str
) -> None:
    calls = stand_in(body + GOOD)
    states = run("deploy_state_table", CONF)
    assert (states[failing], states["roll_back"]) == ("failed", "success")
    assert (states["deployed"], states["run"]) == ("upstream_failed", "failed")
    assert _commands(calls)[-1] == "rollback"
    assert _commands(calls).count("rollback") == 1
    assert "--only-from=3 " in calls.read_text(encoding="utf-8"), "what this run has deployed"


def test_a_table_that_leaves_too_much_out_stays_and_the_run_fails(
    run: Run, stand_in: Callable[[str], Path]
) -> None:
    body = """if [ "$1" = smoke ]; then echo '{"ok": true, "warnings": ["T: 90 %"]}'; exit 4; fi"""
    calls = stand_in(body + GOOD)
    states = run("deploy_state_table", CONF)
    assert (states["smoke_check"], states["deployed"]) == ("success", "success")
    assert (states["left_out"], states["run"]) == ("failed", "failed")
    assert states["roll_back"] == "skipped"
    assert "rollback" not in _commands(calls)


def test_undeploying(run: Run, stand_in: Callable[[str], Path], tmp_path: Path) -> None:
    calls = stand_in(GOOD)
    conf = {"target": "local", "name": "movies", "delete_state": True}
    states = run("undeploy_state_table", conf)
    assert states == dict.fromkeys(("lock_job", "undeploy", "unlock_job", "run"), "success")
    assert calls.read_text(encoding="utf-8") == (
        f"undeploy movies --target=local --home={tmp_path} --delete-state --json\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_ends_and_leaves_nothing_running(
    root: Path, tmp_path: Path, stand_in: Callable[[str], Path], number: signal.Signals
) -> None:
    pid = tmp_path / "pid"
    stand_in(f'if [ "$1" = check ]; then echo $$ > {pid}.tmp; mv {pid}.tmp {pid}; sleep 600; fi')
    own = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW_VENV": sys.prefix}
    run = subprocess.Popen(
        [
            root / ".ci" / "airflow",
            "dags",
            "test",
            "deploy_state_table",
            "--conf",
            json.dumps(CONF),
        ],
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A shell's background job ignores SIGINT, and so does what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no lock
    )
    while not pid.exists():
        assert run.poll() is None, run.communicate()[0]
        time.sleep(0.1)
    run.send_signal(number)
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 1
    assert "check was stopped" in output
    deadline = time.monotonic() + 60
    while _runs(int(pid.read_text(encoding="utf-8"))):  # it ends when given the processor
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """A zombie has ended; in a container nobody may be there to reap it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
