"""A supervised process of this machine; any process may start, find and end it."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.config.commands import module_command
from holdfast.deploy.local.supervisor import SupervisorRecord, read_record
from holdfast.errors import HoldfastError
from holdfast.local.processes import end_process, end_session
from holdfast.types.births import lives, taken_over

__all__ = ["Supervised"]

_START_S, _STOP_S = 60.0, 60.0
_POLL_S = 0.1


class Supervised:
    """Owns the supervisor of one folder; its reports are in the folder's record.

    Args:
        folder: the record's folder, created at the first start.
        log: receives the output of the process.
    """

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder, self._log = folder, log

    @property
    def record(self) -> SupervisorRecord | None:
        """The last supervisor's record, whether it is alive or not."""
        return read_record(self._folder)

    @property
    def runs(self) -> bool:
        """Whether a supervisor is alive."""
        record = self.record
        return record is not None and lives(record.pid, record.born)

    @property
    def pid(self) -> int:
        """The pid of the process; 0 when it is not alive."""
        record = self.record
        alive = record is not None and lives(record.driver_pid, record.driver_born)
        return record.driver_pid if record is not None and alive else 0

    def start(self, revision: int, command: Sequence[str], cwd: str) -> None:
        """Keeps `command` running from now on; there must be no other supervisor.

        Raises:
            HoldfastError: the supervisor did not start.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        # Until the new supervisor writes its record, the old one would be taken for it.
        self.forget()
        supervisor = module_command("holdfast.deploy.local.supervisor")
        with (self._folder / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [*supervisor, str(self._folder), str(self._log), str(revision), *command],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # it outlives this command and its terminal
            )
        # Reaps it when it ends, so that it does not stay a zombie while this process lives.
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
        """Waits for the record of a supervisor that another process may just have started."""
        deadline = time.monotonic() + timeout_s
        while self.record is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Ends the supervisor and the process, even one whose supervisor was killed."""
        record = self.record
        if record is None:
            return
        end_process(record.pid, record.born, _STOP_S)
        record = self.record or record
        if lives(record.driver_pid, record.driver_born):
            end_process(record.driver_pid, record.driver_born, _STOP_S)
        if record.driver_pid and not taken_over(record.driver_pid, record.driver_born):
            end_session(record.driver_pid, 0.0)

    def forget(self) -> None:
        """Removes the record."""
        (self._folder / "supervisor.json").unlink(missing_ok=True)
