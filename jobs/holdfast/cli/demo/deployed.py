"""The demo's job as a local deployment: its supervisor brings the driver back."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.demo.files import APPLICATION_ID
from holdfast.deploy.local.supervisor import SupervisorRecord, read_record
from holdfast.deploy.local.target import LocalDeployment
from holdfast.errors import Refused
from holdfast.local.processes import end_session, lives

__all__ = ["Deployed"]


class Deployed:
    """The deployment `demo` of a home, which need not be there."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "deploy" / APPLICATION_ID
        self._deployment = LocalDeployment(home, APPLICATION_ID)

    def why_dead(self) -> str:
        """Why nothing runs the job; empty when its supervisor does."""
        record = self._record()
        if record is None or not lives(record.pid, record.created):
            return record.reason if record and record.reason else "it is not deployed"
        return ""

    def pids(self) -> list[int]:
        """Supervisor and driver, as far as they are known."""
        record = self._record()
        return [] if record is None else [p for p in (record.pid, record.driver_pid) if p]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nobody starts the driver again before the context ends."""
        record = self._record()
        pid = record.pid if record is not None and lives(record.pid, record.created) else 0
        if pid:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def end_orphans(self, driver: int) -> None:
        """End what a killed driver has left; its supervisor does the same."""
        end_session(driver, 0.0)

    def remove(self) -> None:
        """Undeploy whatever there is; nothing is fine, too."""
        with contextlib.suppress(Refused):
            self._deployment.undeploy(delete_state=False)

    def _record(self) -> SupervisorRecord | None:
        return read_record(self._folder)
