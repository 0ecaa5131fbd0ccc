"""Query servers as processes: `holdfast serve` beside a job that a test commits for."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from holdfast.local.probe import free_ports
from tests.support.jobs.table_job import TableJob

__all__ = ["Servers"]


class Servers:
    """Owns the processes; each partition lies on two of them."""

    def __init__(self, job: TableJob, home: Path, *, count: int) -> None:
        script = home / "job.sql"
        script.write_text(job.sql)
        self.addresses = [f"http://127.0.0.1:{port}" for port in free_ports(count)]
        self._script = script
        self._job = job
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int) -> None:
        settings, folder = self._job.settings, self._script.parent
        command = [sys.executable, "-m", "holdfast.cli.main", "serve", str(self._script)]
        command += [
            "--home",
            str(folder),
            "--server-id",
            str(number),
            "--servers",
            str(len(self.addresses)),
        ]
        command += ["--listen", self.addresses[number].removeprefix("http://")]
        command += ["--peers", ",".join(self.addresses), "--copies", "2"]
        command += ["--set", f"application.id={settings.application_id}"]
        command += ["--set", f"bootstrap.servers={settings.bootstrap_servers}"]
        with (folder / f"server-{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, number: int) -> None:
        process = self._processes.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(30)
