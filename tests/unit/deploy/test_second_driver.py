"""A second driver beside a deployment's: real processes, without Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.local.nemesis import LocalTarget
from holdfast.chaos.targets.local.second_driver import SecondDriver
from holdfast.config.settings import Settings
from holdfast.deploy.local.revisions import Revisions
from holdfast.errors import Retriable
from holdfast.types.births import born, lives
from holdfast.types.components import DRIVER
from tests.unit.deploy.local_job import NAME, LocalJob, local_job, until

_RUNNING = """
import os, sys, time
from pathlib import Path
from holdfast.types.status import JobState, JobStatus, status_path
go, home = Path(sys.argv[1]), sys.argv[2]
while not go.exists():
    time.sleep(0.02)
JobStatus("orders", pid=os.getpid(), state=JobState.RUNNING).write(status_path(home, "orders"))
print(os.environ.get("CHAOS_HOOK_DIR", "no hook"), flush=True)
time.sleep(600)
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[LocalJob]:
    with local_job(tmp_path) as made:
        yield made


@pytest.fixture
def target(job: LocalJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalTarget]:
    command = [sys.executable, "-c", _RUNNING, str(tmp_path / "go"), str(job.folder / "second")]
    monkeypatch.setattr(SecondDriver, "_command", lambda *_: command)
    made = LocalTarget(NAME, Settings(NAME, home=str(job.home)))
    yield made
    made.heal_all()


def test_it_has_landed_when_it_runs_beside_the_first_and_is_ended_by_healing(
    target: LocalTarget, job: LocalJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAOS_HOOK_DIR", "somewhere")
    (first,) = target.victims(DRIVER)
    target.strike(first, Fault.SECOND_DRIVER)
    landing = target.landed(first, Fault.SECOND_DRIVER)
    assert not landing.landed
    assert landing.evidence.endswith("has not opened its stores yet")
    with pytest.raises(Retriable, match="A second driver runs already"):
        target.strike(first, Fault.SECOND_DRIVER)
    (tmp_path / "go").touch()
    until(lambda: target.landed(first, Fault.SECOND_DRIVER).landed, "its start")
    log = job.folder / "second" / "driver.log"
    until(lambda: log.read_text().startswith("no hook"), "its first words")
    assert target.victims(DRIVER) == [first], "it is no driver of the deployment"
    second = int(target.landed(first, Fault.SECOND_DRIVER).evidence.split("pid ")[1].split(")")[0])
    birth = born(second)
    target.heal(first, Fault.SECOND_DRIVER)
    until(lambda: not lives(second, birth), "its end")
    assert target.victims(DRIVER) == [first]
    assert not (job.folder / "second").exists()


def test_one_that_a_dead_nemesis_left_is_found_by_looking(
    target: LocalTarget, job: LocalJob
) -> None:
    (first,) = target.victims(DRIVER)
    target.strike(first, Fault.SECOND_DRIVER)
    another = LocalTarget(NAME, Settings(NAME, home=str(job.home)))
    (told,) = another.heal_all()
    assert told.startswith("the second driver (pid ")
    assert another.heal_all() == []


def test_one_that_could_not_start_has_not_landed_and_says_why(
    target: LocalTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = [sys.executable, "-c", "print('Error: no such broker')"]
    monkeypatch.setattr(SecondDriver, "_command", lambda *_: failing)
    (first,) = target.victims(DRIVER)
    target.strike(first, Fault.SECOND_DRIVER)

    def ended() -> bool:
        return target.landed(first, Fault.SECOND_DRIVER).evidence.endswith("no such broker")

    until(ended, "its end")
    assert not target.landed(first, Fault.SECOND_DRIVER).landed


def test_it_runs_the_jobs_statements_in_a_home_of_its_own(job: LocalJob) -> None:
    second = SecondDriver(job.folder, NAME, "127.0.0.1:1")
    folder = job.folder / "second"
    folder.mkdir()
    command = second._command(Revisions(job.folder).files(1))
    given = {command[i + 1] for i, part in enumerate(command) if part == "--set"}
    assert command[command.index("--home") + 1] == str(folder)
    assert f"state.dir={folder / 'state'}" in given
    assert {"bootstrap.servers=127.0.0.1:1", "executors=1"} <= given
    assert (folder / "job.sql").exists()
