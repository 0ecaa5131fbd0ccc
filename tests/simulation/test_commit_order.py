"""One test per row of the failure table: SIGKILL after every step, on the real broker.

The rows are those of `holdfast.types.steps`.  After the kill a new process opens the same state
partition and sends the same batches; table, changelog and sink must be as if nothing happened.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import Fenced
from holdfast.local.broker import BrokerStatus
from holdfast.tasks.steps import Step
from tests.simulation.histories.checks import check_exact
from tests.simulation.jobs import one_table as history

SEED = 11


def _crash(told: dict[str, object]) -> None:
    command = [sys.executable, "-m", "tests.simulation.jobs.one_table", json.dumps(told)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL, f"the kill did not land: {ended.stderr}"


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize(
    "step", [s for s in Step if s is not Step.RESTORING], ids=lambda s: s.name.lower()
)
def test_a_kill_after_this_step_changes_nothing(
    kafka: BrokerStatus,
    kafka_topic_name: Callable[[str], str],
    tmp_path: Path,
    step: Step,
    batch: int,
) -> None:
    application_id = kafka_topic_name("app")
    plan = history.plan_of(kafka.bootstrap_servers, application_id, tmp_path)
    told = {
        "bootstrap": kafka.bootstrap_servers, "application_id": application_id,
        "root": str(tmp_path), "seed": SEED, "step": step.value, "batch": batch,
    }  # fmt: skip
    _crash(told)
    task, opened = history.open_task(plan, tmp_path)
    committed = batch + (step >= Step.COMMITTED) if step is not Step.OPENED else 0
    assert (task.marker.source["s", 0].end if task.marker else 0) == committed * 100
    reports = history.apply_all(task, plan, SEED)
    assert [r.skipped for r in reports].count(True) == (1 if committed else 0)
    assert task.describe().rows == len(history.expected(SEED))
    task.close()
    check_exact(plan, SEED)
    if step is Step.COMMITTED:
        assert opened.restored_records > 0, "the tail that the store missed was not replayed"


def test_a_kill_in_a_restore_changes_nothing(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    application_id = kafka_topic_name("app")
    plan = history.plan_of(kafka.bootstrap_servers, application_id, tmp_path / "a")
    owner, _ = history.open_task(plan, tmp_path / "a")
    history.apply_all(owner, plan, SEED)
    owner.close()
    told = {
        "bootstrap": kafka.bootstrap_servers, "application_id": application_id,
        "root": str(tmp_path / "b"), "seed": SEED, "step": Step.RESTORING.value, "batch": 0,
    }  # fmt: skip
    _crash(told)
    heir, opened = history.open_task(plan, tmp_path / "b")
    assert opened.restore_reason == "the store is empty"  # so few rows were in memory only
    assert heir.describe().rows == len(history.expected(SEED))
    assert [r.skipped for r in history.apply_all(heir, plan, SEED)] == [True]
    heir.close()
    check_exact(plan, SEED)


def test_a_zombie_is_fenced_and_writes_nothing(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    plan = history.plan_of(kafka.bootstrap_servers, kafka_topic_name("app"), tmp_path / "a")
    zombie, _ = history.open_task(plan, tmp_path / "a")
    zombie.process(history.batch_of(0), history.payload_of(plan, SEED, 0))
    heir, report = history.open_task(plan, tmp_path / "b")
    assert report.restored_records > 0
    with pytest.raises(Fenced):
        zombie.process(history.batch_of(1), history.payload_of(plan, SEED, 1))
    zombie.close()
    history.apply_all(heir, plan, SEED)
    heir.close()
    check_exact(plan, SEED)
