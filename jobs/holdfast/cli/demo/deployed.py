"""The demo's job as a local deployment: its supervisor restarts the driver."""

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
from holdfast.local.processes import end_session
from holdfast.types.births import lives

__all__ = ["Deployed"]


class Deployed:
    """The deployment `demo` of a home, which need not exist."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "deploy" / APPLICATION_ID
        self._deployment = LocalDeployment(home, APPLICATION_ID)

    def why_dead(self) -> str:
        """Why no supervisor runs the job; empty if one does."""
        record = self._record()
        if record is None or not lives(record.pid, record.born):
            return record.reason if record and record.reason else "it is not deployed"
        return ""

    def pids(self) -> list[int]:
        """Supervisor and driver, as far as they are known."""
        record = self._record()
        return [] if record is None else [p for p in (record.pid, record.driver_pid) if p]

    def servers(self) -> list[str]:
        """The addresses of its query servers."""
        told = self._deployment.status().details.get("servers", ())
        return [str(server["url"]) for server in told]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Context in which the supervisor does not restart the driver."""
        record = self._record()
        pid = record.pid if record is not None and lives(record.pid, record.born) else 0
        if pid:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def end_orphans(self, driver: int) -> None:
        """End processes that a killed driver left; its supervisor does the same."""
        end_session(driver, 0.0)

    def remove(self) -> None:
        """Undeploy the job if it is deployed."""
        with contextlib.suppress(Refused):
            self._deployment.undeploy(delete_state=False)

    def _record(self) -> SupervisorRecord | None:
        return read_record(self._folder)
