"""A supervisor with real processes: what it starts again, what it does not, what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.deploy.local.supervisor import (
    SupervisorRecord,
    last_error,
    last_error_in,
    pauses,
    read_record,
)
from holdfast.local.processes import session_members
from holdfast.state.files import write_json
from holdfast.types.births import lives

# Its child stands for an executor: it is in the driver's session, and must not outlive it.
DRIVER = """
import subprocess, sys, time
print("up", flush=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
time.sleep(120)
"""
REFUSED = """
import sys
print("a log line", file=sys.stderr)
print("Error: no such topic\\nLikely cause: a typo\\nWhat to do: correct it", file=sys.stderr)
sys.exit(2)
"""


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


class Supervised:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, script: str, revision: int = 1) -> None:
        command = [sys.executable, "-m", "holdfast.deploy.local.supervisor", str(self.folder)]
        command += [str(self.folder / "driver.log"), str(revision), sys.executable, "-c", script]
        self.process = subprocess.Popen(command, start_new_session=True)

    def record(self) -> SupervisorRecord:
        found = read_record(self.folder)
        assert found is not None
        return found

    def until(self, holds: Callable[[SupervisorRecord], bool]) -> SupervisorRecord:
        until(lambda: (found := read_record(self.folder)) is not None and holds(found))
        return self.record()

    def running(self, starts: int) -> SupervisorRecord:
        return self.until(lambda r: r.starts == starts and len(session_members(r.driver_pid)) == 2)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        found = read_record(self.folder)
        for member in session_members(found.driver_pid) if found and found.driver_pid else []:
            member.kill()


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    made = Supervised(tmp_path)
    yield made
    made.stop()


def test_a_killed_driver_is_started_again_and_leaves_nobody(supervised: Supervised) -> None:
    supervised.start(DRIVER, revision=3)
    first = supervised.running(starts=1)
    assert first.revision == 3
    assert lives(first.pid, first.born)
    psutil.Process(first.driver_pid).kill()
    second = supervised.running(starts=2)
    assert second.driver_pid != first.driver_pid
    assert session_members(first.driver_pid) == []
    assert second.reason == "the driver was killed by signal 9: up"


def test_sigterm_ends_the_driver_and_all_it_started(supervised: Supervised) -> None:
    supervised.start(DRIVER)
    record = supervised.running(starts=1)
    assert supervised.process is not None
    # An executor ends by itself when its driver does; this one is told to.
    for member in session_members(record.driver_pid):
        if member.pid != record.driver_pid:
            member.terminate()
    supervised.process.send_signal(signal.SIGTERM)
    assert supervised.process.wait(30) == 0
    assert session_members(record.driver_pid) == []
    assert supervised.record().state == "stopped"


def test_a_refused_job_is_not_started_again_and_the_reason_is_kept(supervised: Supervised) -> None:
    supervised.start(REFUSED)
    assert supervised.process is not None
    assert supervised.process.wait(30) == 0
    record = supervised.record()
    assert (record.state, record.starts) == ("refused", 1)
    assert record.reason == (
        "the driver ended with status 2: no such topic\n"
        "Likely cause: a typo\nWhat to do: correct it"
    )


def test_what_an_older_version_supervises_is_found(tmp_path: Path) -> None:
    created = psutil.Process().create_time()
    pid, old = os.getpid(), {"created": created, "driver_created": created, "state": "waiting"}
    write_json(
        tmp_path / "supervisor.json", 1, old | {"pid": pid, "revision": 7, "driver_pid": pid}
    )
    found = read_record(tmp_path)
    assert found is not None
    assert (found.revision, found.state) == (7, "waiting")
    assert lives(found.pid, found.born)
    assert lives(found.driver_pid, found.driver_born)


def test_pauses_double_up_to_a_minute_and_the_first_start_again_has_none() -> None:
    assert [pauses(n) for n in range(10)] == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert pauses(10_000) == 60


def test_a_driver_that_dies_young_is_given_pauses(supervised: Supervised) -> None:
    began = supervised.folder / "began"
    write = f"open({str(began)!r}, 'a').write(f'{{time.time()}}\\n')"
    supervised.start(f"import sys, time; {write}; sys.exit(1)")
    supervised.until(lambda r: r.starts >= 5)
    lives = [float(line) for line in began.read_text().splitlines()]
    assert lives[3] - lives[2] > 2.0
    assert lives[2] - lives[1] > 1.0


def test_a_second_supervisor_waits_for_the_first(supervised: Supervised, tmp_path: Path) -> None:
    supervised.start(DRIVER)
    first = supervised.running(starts=1)
    other = Supervised(tmp_path)
    other.start(DRIVER, revision=2)
    time.sleep(1.5)
    assert other.process is not None
    assert other.process.poll() is None
    assert supervised.record() == first
    other.process.kill()
    other.process.wait()


def test_the_last_error_of_a_log_is_told_or_its_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Error: old\nnew life\nError: first\nError: second\nWhat to do: x\n")
    assert last_error(log, 0) == "second\nWhat to do: x"
    assert last_error_in("Traceback\n  line\nValueError: 5\n\n") == "ValueError: 5"
    assert last_error(log, log.stat().st_size) == ""
    assert last_error(tmp_path / "none", 0) == ""
