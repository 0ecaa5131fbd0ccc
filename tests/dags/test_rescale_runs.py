"""Whole runs that rescale a query, with a script in the place of `holdfast`, and a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun

from tests.dags.approver import Approver

DAG = "rescale_state_table"
CONF = {"target": "local", "name": "movies", "query": "ctas_sold", "state_partitions": 64}
PLAN = {"query": "ctas_sold", "application_id": "movies", "state_partitions": 8, "wanted": 64}
GOOD = f"""
case "$*" in
  *--dry-run*--json) echo '{json.dumps(PLAN)}' ;;
  *--dry-run*) echo 'a sentence' ;;
  *) echo '{{"ok": true, "generation": 1}}' ;;
esac
"""


def _run(dags_folder: Path, home: Path) -> dict[str, str]:
    bag = DagBag(dags_folder / f"{DAG}.py", bundle_name="dags-folder")
    found: DagRun = bag.dags[DAG].test(run_conf={**CONF, "home": str(home)})
    return {task.task_id: str(task.state) for task in found.get_task_instances()}


def _asked(calls: Path) -> list[str]:
    return calls.read_text(encoding="utf-8").splitlines()


def test_an_approved_rescale_is_ordered(
    dags_folder: Path, database: None, stand_in: Callable[[str], Path], tmp_path: Path
) -> None:
    calls = stand_in(GOOD)
    with Approver("Approve") as person:
        states = _run(dags_folder, tmp_path)
    assert set(states.values()) == {"success"}
    assert person.seen is not None
    assert person.seen["subject"] == "ctas_sold of movies: 8 → 64 state partitions"
    *_, last = _asked(calls)
    assert last.split()[:4] == [
        "rescale", "ctas_sold", "--state-partitions=64", "--application-id=movies",
    ]  # fmt: skip
    assert "--dry-run" not in last


def test_a_rejected_one_is_not(
    dags_folder: Path, database: None, stand_in: Callable[[str], Path], tmp_path: Path
) -> None:
    calls = stand_in(GOOD)
    with Approver("Reject"):
        states = _run(dags_folder, tmp_path)
    assert states["rescale"] == "skipped"
    assert all("--dry-run" in line for line in _asked(calls))
