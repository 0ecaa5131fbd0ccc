"""Orders and the hook that obeys them, each in a process of its own, as in a job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.chaos.faults.hook_files import HookFiles
from holdfast.runtime.jvm.session import _FIXED
from holdfast.types.steps import Step

ROOT = Path(__file__).parents[3]
# What Spark's daemon does: it is started with the hook and forks a worker that runs state tasks.
_DAEMON = """
import os, sys
from holdfast.tasks.steps import Step, reached
if os.fork() == 0:
    for line in sys.stdin:
        step, partition = line.split()
        reached(Step[step], "q", int(partition))
        print("past", step, flush=True)
    os._exit(0)
os.wait()
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    package = tmp_path / "fake" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "daemon.py").write_text(_DAEMON)
    path = [ROOT / "tests" / "chaos" / "hook", tmp_path / "fake", ROOT / "jobs", ROOT]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "CHAOS_HOOK_DIR": str(tmp_path / "hook"),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pyspark.daemon"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        yield process
        process.stdin.close()  # type: ignore[union-attr]


def _reach(worker: subprocess.Popen[str], step: Step) -> None:
    assert worker.stdin is not None
    worker.stdin.write(f"{step.name} 3\n")
    worker.stdin.flush()


def _past(worker: subprocess.Popen[str], step: Step) -> None:
    assert worker.stdout is not None
    assert worker.stdout.readline() == f"past {step.name}\n"


def _until_held(files: HookFiles, order: str) -> int:
    deadline = time.monotonic() + 30
    while (held := files.held(order)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (held.order, held.query_id, held.partition) == (order, "q", 3)
    return held.pid


def test_only_the_ordered_step_is_held_until_it_is_released(
    worker: subprocess.Popen[str], tmp_path: Path
) -> None:
    files = HookFiles(tmp_path / "hook")
    _reach(worker, Step.BEGUN)
    _past(worker, Step.BEGUN)  # nobody ordered anything
    files.order("a", Step.MARKED, hold_s=60)
    _reach(worker, Step.BEGUN)
    _past(worker, Step.BEGUN)
    assert files.held("a") is None
    _reach(worker, Step.MARKED)
    assert _until_held(files, "a") in files.pids()
    files.release("a")
    _past(worker, Step.MARKED)
    _reach(worker, Step.MARKED)
    _past(worker, Step.MARKED)  # one order holds one state task


def test_a_hold_ends_by_itself(worker: subprocess.Popen[str], tmp_path: Path) -> None:
    files = HookFiles(tmp_path / "hook")
    files.order("b", Step.COMMITTED, hold_s=0.2)
    _reach(worker, Step.COMMITTED)
    _past(worker, Step.COMMITTED)


def test_orders_can_be_taken_back_all_at_once(
    worker: subprocess.Popen[str], tmp_path: Path
) -> None:
    files = HookFiles(tmp_path / "hook")
    files.order("c", Step.BEGUN, hold_s=60)
    files.order("d-1", Step.MARKED, hold_s=60)
    _reach(worker, Step.MARKED)
    _until_held(files, "d-1")
    files.clear()
    _past(worker, Step.MARKED)
    _reach(worker, Step.BEGUN)
    _past(worker, Step.BEGUN)


def test_without_the_variable_nothing_is_hooked() -> None:
    code = "import holdfast.tasks.steps as s; print(s._observer)"
    path = [ROOT / "tests" / "chaos" / "hook", ROOT / "jobs"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "None\n"


def test_the_hook_knows_the_daemon_that_a_job_forks_its_workers_from() -> None:
    daemon = _FIXED["spark.python.daemon.module"]
    assert f'"{daemon}"' in (ROOT / "tests" / "chaos" / "hook" / "sitecustomize.py").read_text()
