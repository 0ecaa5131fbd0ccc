"""The process that keeps a local deployment's driver, or one of its query servers, running.

    starting → running → (died) waiting → running …
                  ↘ refused: exit status 2 of the driver, a person has to decide
                  ↘ stopped: SIGTERM to the supervisor ends the driver first

It starts the driver in a session of its own and restarts it when it dies: at once the first time,
then after a pause that doubles from 1 s to 60 s and is reset after five minutes of work.  The
driver's executors are useless without it and are killed before its successor starts.  A query
server is kept running in the same way, in the driver's place.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from holdfast.local.processes import end_session
from holdfast.state.files import read_json, write_json
from holdfast.types.births import born, upgraded

__all__ = [
    "REFUSED",
    "SupervisorRecord",
    "last_error",
    "last_error_in",
    "pauses",
    "read_record",
    "supervise",
]

REFUSED = 2
"""The exit status of the command line when a person has to decide."""

_VERSION = 1
_PAUSE_FIRST_S, _PAUSE_MAX_S = 1.0, 60.0
_WORKED_S = 300.0
_STOP_S = 45.0
_POLL_S = 0.1


@dataclass(frozen=True)
class SupervisorRecord:
    """A supervisor's report; with its birth, a pid names one process (`types.births`).

    Attributes:
        state: running, waiting, refused or stopped.
        starts: number of the driver's starts, including the first.
        reason: why the driver last ended.
        log_from: offset in the log, in bytes, at which the driver's present life begins.
    """

    pid: int
    born: str
    revision: int
    state: str = "running"
    driver_pid: int = 0
    driver_born: str = ""
    starts: int = 0
    reason: str = ""
    log_from: int = 0


def read_record(folder: Path) -> SupervisorRecord | None:
    """The record of the folder's last supervisor, alive or not."""
    found = read_json(folder / "supervisor.json")
    if found is None or found.get("version") != _VERSION:
        return None
    known = {f.name for f in fields(SupervisorRecord)}
    return SupervisorRecord(**{k: v for k, v in upgraded(found).items() if k in known})


def pauses(deaths: int) -> float:
    """Seconds to wait before restarting the driver after this many deaths in a row."""
    if deaths <= 1:
        return 0.0
    return float(min(_PAUSE_FIRST_S * 2 ** min(deaths - 2, 10), _PAUSE_MAX_S))


def last_error(log: Path, start: int) -> str:
    """The last error in a log after byte `start`; see `last_error_in`."""
    try:
        with log.open("rb") as file:
            file.seek(start)
            return last_error_in(file.read().decode(errors="replace"))
    except OSError:
        return ""


def last_error_in(text: str) -> str:
    """The last error that the command line printed, else the last line."""
    lines = text.splitlines()
    errors = [i for i, line in enumerate(lines) if line.startswith("Error: ")]
    if not errors:
        return next((line.strip()[:500] for line in reversed(lines) if line.strip()), "")
    return "\n".join(lines[errors[-1] :]).removeprefix("Error: ").strip()[:4000]


class _Supervisor:
    """Owns the driver of one revision, and the folder's record."""

    def __init__(self, folder: Path, log: Path, revision: int, command: list[str]) -> None:
        self._folder, self._log, self._command = folder, log, command
        self._stop = threading.Event()
        self._record = SupervisorRecord(os.getpid(), born(), revision)

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self._stop.set())
        deaths = 0
        while not self._stop.wait(pauses(deaths)):
            began = time.monotonic()
            status = self._one_life()
            if self._stop.is_set():
                break
            if status == REFUSED:
                self._tell(state="refused")
                return
            deaths = 1 if time.monotonic() - began > _WORKED_S else deaths + 1
        self._tell(state="stopped", driver_pid=0)

    def _one_life(self) -> int:
        """Runs the driver once, from start to end; returns its exit status."""
        with self._log.open("ab") as log:
            log_from = log.tell()
            driver = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._tell(
            state="running",
            driver_pid=driver.pid,
            driver_born=born(driver.pid),
            starts=self._record.starts + 1,
            log_from=log_from,
        )
        while driver.poll() is None and not self._stop.wait(_POLL_S):
            pass
        if driver.poll() is None:
            driver.terminate()
            end_session(driver.pid, _STOP_S)
        end_session(driver.pid, 0.0)
        status = driver.wait()
        how = f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"
        why = f"the {self._log.stem} {how}: {last_error(self._log, log_from)}"
        self._tell(state="waiting", reason=why if not self._stop.is_set() else "")
        return status

    def _tell(self, **changes: object) -> None:
        self._record = replace(self._record, **changes)  # type: ignore[arg-type]
        write_json(self._folder / "supervisor.json", _VERSION, asdict(self._record))


def supervise(folder: Path, log: Path, revision: int, command: list[str]) -> None:
    """Keeps `command` running until SIGTERM, or until it is refused.

    One supervisor per folder: a second one waits until the first has ended.
    """
    with (folder / "supervisor.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _Supervisor(folder, log, revision, command).run()


if __name__ == "__main__":  # FOLDER LOG REVISION COMMAND...
    supervise(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
