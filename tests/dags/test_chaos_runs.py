"""Whole chaos runs in Airflow, with a script in place of `holdfast`: the order of tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun

from holdfast_airflow.locks.file import FileLock
from holdfast_airflow.locks.held import Holder

CONF = {"target": "local", "name": "movie_tickets_sold", "rounds": 3, "seed": 7}
GOOD = """
case $2 in
  precheck) echo 'seed 7' >&2
            echo '{"run":"r","name":"movies","config":"sasl.password: hush","folder":"/h"}' ;;
  report) echo '{"verdict": "valid", "report": "/h/r", "job": "movies", "tables": []}' ;;
  *) echo '{"ok": true}' ;;
esac
"""
Ended = tuple[dict[str, str], dict[str, Any]]


@pytest.fixture
def run(dags_folder: Path, database: None, tmp_path: Path) -> Callable[..., Ended]:
    """Runs the DAG: state by task (the run as `run`), and the XCom of each task, and reasons."""

    def start(dag: str = "chaos_exactly_once", **conf: Any) -> Ended:
        bag = DagBag(dags_folder / f"{dag}.py", bundle_name="dags-folder")
        found: DagRun = bag.dags[dag].test(run_conf={**CONF, "home": str(tmp_path), **conf})
        tasks = found.get_task_instances()
        states = {task.task_id: str(task.state) for task in tasks}
        told = {
            task.task_id: task.xcom_pull(task_ids=task.task_id, run_id=found.run_id)
            for task in tasks
        }
        reasons = {
            f"{task.task_id}: reason": task.xcom_pull(
                task_ids=task.task_id, key="reason", run_id=found.run_id
            )
            for task in tasks
        }
        return {**states, "run": str(found.state)}, {**told, **reasons}

    return start


def _commands(calls: Path) -> list[str]:
    return [line.split()[1] for line in calls.read_text(encoding="utf-8").splitlines()]


def test_a_valid_run_goes_through_every_step(
    run: Callable[..., Ended], stand_in: Callable[[str], Path]
) -> None:
    calls = stand_in(GOOD)
    states, told = run("chaos_daily")
    assert set(states.values()) == {"success"}
    commands = _commands(calls)
    assert set(commands[2:4]) == {"workload", "nemesis"}
    assert commands[:2] + commands[4:] == [
        "precheck", "baseline", "heal", "quiesce", "verify", "report",
    ]  # fmt: skip
    assert told["precheck"] == {"ok": True, "job": "movies"}, "and nothing of its properties"
    assert told["lock_job"] == {"job": "movies"}, "it is not locked by the name of a table"
    assert told["verify"] == {"verdict": "valid"}
    assert told["report"]["verdict"] == "valid"
    runs = {line.split("--run=")[1].split()[0] for line in calls.read_text().splitlines()}
    assert len(runs) == 1, "all steps are about one run"


def test_a_refused_run_breaks_nothing(
    run: Callable[..., Ended], stand_in: Callable[[str], Path]
) -> None:
    calls = stand_in('if [ "$2" = precheck ]; then echo "Error: Not so." >&2; exit 2; fi' + GOOD)
    states, told = run()
    assert (states["precheck"], states["run"]) == ("failed", "failed")
    assert {states["verify"], states["report"]} == {"upstream_failed"}
    assert _commands(calls) == ["precheck"]
    assert told["precheck: reason"] == "precheck ended with status 2. Error: Not so."


def test_a_job_that_another_run_changes_is_not_broken(
    run: Callable[..., Ended], stand_in: Callable[[str], Path], tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    other = Holder("deploy_state_table", "a", now, now + timedelta(days=1))
    assert FileLock(tmp_path, "movies").take(other, None)
    calls = stand_in(GOOD)
    states, told = run(lock_timeout_minutes=0)
    assert (states["lock_job"], states["run"]) == ("failed", "failed")
    assert {states["verify"], states["report"]} == {"upstream_failed"}
    assert _commands(calls) == ["precheck", "heal"]
    assert "deploy_state_table, run a" in told["lock_job: reason"]


def test_a_verdict_that_is_not_valid_fails_the_run_and_is_reported(
    run: Callable[..., Ended], stand_in: Callable[[str], Path]
) -> None:
    bad = (
        'if [ "$2" = verify ]; then echo "invalid  lost_keys: 3 are missing"; exit 1; fi\n'
        'if [ "$2" = report ]; then echo \'{"verdict": "invalid", "report": "/h/r", '
        '"job": "movies", "tables": []}\'; exit 1; fi\n'
    )
    calls = stand_in(bad + GOOD)
    states, told = run()
    assert (states["verify"], states["proved"], states["run"]) == (
        "failed", "upstream_failed", "failed",
    )  # fmt: skip
    assert (states["report"], told["report"]["verdict"]) == ("success", "invalid")
    assert told["verify: reason"].endswith("invalid  lost_keys: 3 are missing")
    assert _commands(calls)[-2:] == ["verify", "report"], "a verdict is not asked for again"


def test_after_a_nemesis_that_failed_the_job_is_healed_and_judged(
    run: Callable[..., Ended], stand_in: Callable[[str], Path]
) -> None:
    calls = stand_in('if [ "$2" = nemesis ]; then echo "Error: Down." >&2; exit 1; fi' + GOOD)
    states, _ = run()
    assert (states["nemesis"], states["run"]) == ("failed", "failed")
    assert _commands(calls).count("nemesis") == 1, "a second time would be another run"
    assert _commands(calls)[-4:] == ["heal", "quiesce", "verify", "report"]
