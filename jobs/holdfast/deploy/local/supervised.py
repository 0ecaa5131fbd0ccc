"""A supervised process of this machine, seen from outside: started, found and ended by anybody."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.deploy.local.supervisor import SupervisorRecord, read_record
from holdfast.errors import HoldfastError
from holdfast.local.processes import end_process, end_session, lives, taken_over

__all__ = ["Supervised"]

_START_S, _STOP_S = 60.0, 60.0
_POLL_S = 0.1


class Supervised:
    """Owns the supervisor of one folder; what that tells is in the folder's record.

    Args:
        folder: of the record; it is made when something is started.
        log: what the process prints is added to it.
    """

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder, self._log = folder, log

    @property
    def record(self) -> SupervisorRecord | None:
        """The last supervisor's, alive or not."""
        return read_record(self._folder)

    @property
    def runs(self) -> bool:
        """Does a supervisor take care of it?"""
        record = self.record
        return record is not None and lives(record.pid, record.created)

    @property
    def pid(self) -> int:
        """Of the process; 0 when it does not live."""
        record = self.record
        alive = record is not None and lives(record.driver_pid, record.driver_created)
        return record.driver_pid if record is not None and alive else 0

    def start(self, revision: int, command: Sequence[str], cwd: str) -> None:
        """Has `command` kept running from now on; there must be no other supervisor.

        Raises:
            HoldfastError: its supervisor did not start.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        # A record of the one before would be taken for this one's until it writes its own.
        self.forget()
        supervisor = [sys.executable, "-m", "holdfast.deploy.local.supervisor"]
        with (self._folder / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [*supervisor, str(self._folder), str(self._log), str(revision), *command],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # it outlives this command and its terminal
            )
        # When it ends it is to be gone, and not a zombie for as long as this process lives.
        threading.Thread(target=process.wait, name=self._folder.name, daemon=True).start()
        self._await_record(process)

    def _await_record(self, supervisor: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_S
        while self.record is None:
            if supervisor.poll() is not None or time.monotonic() >= deadline:
                raise HoldfastError(
                    f"The supervisor of {self._folder.name} (pid {supervisor.pid}) did not start.",
                    action=f"read {self._folder / 'supervisor.log'}.",
                )
            time.sleep(_POLL_S)

    def await_record(self, timeout_s: float) -> None:
        """A supervisor that somebody else has started may be about to say that it is there."""
        deadline = time.monotonic() + timeout_s
        while self.record is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Ends supervisor and process; also a process whose supervisor was killed."""
        record = self.record
        if record is None:
            return
        end_process(record.pid, record.created, _STOP_S)
        record = self.record or record
        if lives(record.driver_pid, record.driver_created):
            end_process(record.driver_pid, record.driver_created, _STOP_S)
        if record.driver_pid and not taken_over(record.driver_pid, record.driver_created):
            end_session(record.driver_pid, 0.0)

    def forget(self) -> None:
        """Removes the record."""
        (self._folder / "supervisor.json").unlink(missing_ok=True)
