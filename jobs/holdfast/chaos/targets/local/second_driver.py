"""A second driver of a deployment's job on this machine: same application.id, another home.

A supervisor that believes its driver dead, a forgotten terminal or a second cluster would start
the same: the job's statements and properties, stores of its own, one executor.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

from holdfast.chaos.faults.target import Landing
from holdfast.config.commands import HOLDFAST, module_command
from holdfast.deploy.local.revisions import JobFiles, Revisions
from holdfast.deploy.local.supervisor import last_error
from holdfast.errors import Retriable
from holdfast.local.processes import end_session
from holdfast.state.files import private_file, read_json, write_json
from holdfast.types.births import born, lives, taken_over, upgraded
from holdfast.types.status import JobState, JobStatus, status_path

__all__ = ["SecondDriver"]

_VERSION = 1
# The tests' hook would hold the second driver's state tasks instead of the job's.
_HOOK_VARIABLE = "CHAOS_HOOK_DIR"


class SecondDriver:
    """Owns `<deployment>/second`: home, record and log of at most one second driver.

    Args:
        folder: the deployment's folder.
        application_id: the job's.
        servers: the brokers' addresses.
    """

    def __init__(self, folder: Path, application_id: str, servers: str) -> None:
        self._deployment, self._home = folder, folder / "second"
        self._application = application_id
        self._record, self._log = self._home / "second.json", self._home / "driver.log"
        self._servers = servers
        self._seen = False

    def start(self) -> str:
        """Starts the second driver, in a session of its own.

        Raises:
            Retriable: one runs already.
            Refused: the deployment has no revision.
        """
        if self._pid():
            raise Retriable("A second driver runs already.", action="wait until it is ended")
        self.end()
        self._home.mkdir(parents=True)
        revisions = Revisions(self._deployment)
        files = revisions.files(revisions.current)
        environment = {k: v for k, v in os.environ.items() if k != _HOOK_VARIABLE}
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._command(files),
                cwd=files.folder or None,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        birth = born(process.pid)  # a zombie still has one
        # Reaps it when it ends, so that it does not stay a zombie while this process lives.
        threading.Thread(target=process.wait, name="second driver", daemon=True).start()
        write_json(self._record, _VERSION, {"pid": process.pid, "born": birth})
        return f"a second driver of {files.application_id} started (pid {process.pid})"

    def landing(self) -> Landing:
        """Whether it has opened every state partition, fencing the first driver's producers."""
        pid, status = self._pid(), JobStatus.read(status_path(self._home, self._application))
        if pid and status is not None and status.pid == pid:
            self._seen = self._seen or status.state is JobState.RUNNING
        if self._seen:
            return Landing(True, f"the second driver (pid {pid or 'gone'}) has opened all stores")
        if pid:
            return Landing(False, f"the second driver (pid {pid}) has not opened its stores yet")
        return Landing(False, f"the second driver has ended: {last_error(self._log, 0)}")

    def end(self) -> list[str]:
        """Kills it and removes its home; returns what there was, in words.  May be called again."""
        pid, birth = self._started()
        done = []
        if pid and not taken_over(pid, birth):
            end_session(pid, 0.0)
            done = [f"the second driver (pid {pid}) ended"]
        shutil.rmtree(self._home, ignore_errors=True)
        self._seen = False
        return done

    def _command(self, files: JobFiles) -> list[str]:
        sql, config = self._home / "job.sql", self._home / "job.yaml"
        sql.write_text(files.sql, encoding="utf-8")
        command = module_command(HOLDFAST, "run", str(sql))
        command += ["--home", str(self._home)]
        if files.config:
            with private_file(config) as file:
                file.write(files.config)
            command += ["--config", str(config)]
        own = (
            f"bootstrap.servers={self._servers}",
            f"state.dir={self._home / 'state'}",
            "metrics.port=0",
            "executors=1",
            # With it, one of the two would end; the fault is what happens if both go on.
            "driver.lease=false",
        )
        return command + [part for text in (*files.overrides, *own) for part in ("--set", text)]

    def _pid(self) -> int:
        """The driver's pid; 0 when it is not alive."""
        pid, birth = self._started()
        return pid if lives(pid, birth) else 0

    def _started(self) -> tuple[int, str]:
        """Pid and birth of the last one; 0 if there was none."""
        record = upgraded(read_json(self._record) or {"pid": 0, "born": ""})
        return int(record["pid"]), record["born"]
