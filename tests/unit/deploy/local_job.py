"""Processes that look like a local deployment's: a driver, its JVM, executors with workers.

They are real processes with a real record, status file and volumes; only Spark is missing.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil

from holdfast.deploy.local.revisions import JobFiles, Revisions
from holdfast.deploy.local.supervisor import SupervisorRecord
from holdfast.local.processes import end_session
from holdfast.state.files import write_json
from holdfast.types.births import born
from holdfast.types.status import JobState, JobStatus, status_path

NAME = "orders"
_WORKER = """
import os, sys, time
from pathlib import Path
from holdfast.state.volume import claim
volume = claim(Path(sys.argv[1]), expected=2, wait_s=5)
store = volume.store_path("orders", "q", 0)
store.mkdir(parents=True, exist_ok=True)
told = ""
for n in range(100000):
    try:
        (store / f"file{n % 5}").write_text("x")
        say = "ok"
    except OSError as error:
        say = error.strerror
    if say != told:
        told = say
        print(volume.ordinal, say, flush=True)
    time.sleep(0.02)
"""
_EXECUTOR = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[4], sys.argv[5]])
time.sleep(600)
"""
_DRIVER = """
import subprocess, sys, time
executor, worker, state, count = sys.argv[1:]
subprocess.Popen(["sleep", "600"])
for number in range(int(count)):
    subprocess.Popen([sys.executable, "-c", executor, "org.CoarseGrainedExecutorBackend",
                      "--executor-id", str(number), worker, state])
print("driver started", flush=True)
time.sleep(600)
"""


class LocalJob:
    """A deployment folder and what runs in it; `said` is what the processes have printed."""

    def __init__(self, home: Path, executors: int = 2) -> None:
        self.home, self.state = home, home / "state"
        self.folder = home / "deploy" / NAME
        self._executors = executors
        revisions = Revisions(self.folder)
        files = JobFiles(NAME, "", "", (), str(home), str(self.state))
        revisions.deployed(revisions.add(files))
        self.said: list[str] = []
        self._starts = itertools.count(1)
        self._sessions: list[int] = []
        self._started: list[subprocess.Popen[str]] = []
        self.ready = True
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def start(self) -> psutil.Process:
        """Starts a driver with all its processes, as the supervisor would."""
        command = [sys.executable, "-c", _DRIVER, _EXECUTOR, _WORKER]
        driver = subprocess.Popen(
            [*command, str(self.state), str(self._executors)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(driver)
        self._sessions.append(driver.pid)
        threading.Thread(target=self._listen, args=(driver,), daemon=True).start()
        process = psutil.Process(driver.pid)
        record = SupervisorRecord(
            1, "", 1, driver_pid=driver.pid, driver_born=born(driver.pid),
            starts=next(self._starts),
        )  # fmt: skip
        write_json(self.folder / "supervisor.json", 1, asdict(record))
        url = f"http://127.0.0.1:{self._server.server_port}/metrics"
        status = JobStatus(NAME, pid=driver.pid, state=JobState.RUNNING, metrics_url=url)
        status.write(status_path(self.home, NAME))
        until(lambda: sum("ok" in line for line in self.said) >= self._executors, "its workers")
        return process

    def said_of(self, words: str) -> list[str]:
        return [line for line in self.said if words in line]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for session in self._sessions:
            end_session(session, 0.0)
        for driver in self._started:
            driver.wait()
            if driver.stdout is not None:
                driver.stdout.close()

    def _listen(self, driver: subprocess.Popen[str]) -> None:
        assert driver.stdout is not None
        try:
            for line in driver.stdout:
                self.said.append(line.strip())
        except ValueError:
            return  # closed

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        job = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"ready": job.ready, "state": "running"}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        return Handler


@contextmanager
def local_job(home: Path) -> Iterator[LocalJob]:
    job = LocalJob(home)
    try:
        job.start()
        yield job
    finally:
        job.close()


def until(holds: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds} s"
        time.sleep(0.02)


def gone(processes: Sequence[psutil.Process]) -> bool:
    return not any(map(_up, processes))


def _up(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
