"""Finds the processes of a local deployment: their roles and their states."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from holdfast.deploy.local.supervisor import SupervisorRecord, read_record
from holdfast.local.processes import session_members
from holdfast.types.births import after_boot, lives
from holdfast.types.components import DRIVER, EXECUTOR

__all__ = [
    "JobProcesses",
    "Member",
    "full_disk",
    "identity_of",
    "is_stopped",
    "signal_all",
    "tree_of",
    "volume_of",
]

_EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"
_HOOK_VARIABLE = "CHAOS_HOOK_DIR"


@dataclass(frozen=True)
class Member:
    """A component's living process; `pid` is its main one."""

    component: str
    name: str
    pid: int

    @property
    def identity(self) -> str:
        """The incarnation's identity; empty once it is gone."""
        return identity_of(self.pid)


class JobProcesses:
    """Finds the processes of one deployment by the session that its driver leads.

    Args:
        folder: the deployment's folder, `<home>/deploy/<name>`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def drivers(self) -> list[Member]:
        """The driver, if it is alive."""
        record = self.driver()
        return [Member(DRIVER, "driver", record.driver_pid)] if record is not None else []

    def executors(self) -> list[Member]:
        """The living executors, by number."""
        found = []
        for process in self._session():
            number = _executor_number(process)
            if number is not None:
                found.append((number, process.pid))
        return [Member(EXECUTOR, f"executor {number}", pid) for number, pid in sorted(found)]

    def of_driver(self) -> list[psutil.Process]:
        """The driver's command and JVM, without its executors."""
        session = self._session()
        executors = {p.pid for m in self.executors() for p in tree_of(m.pid)}
        return [p for p in session if p.pid not in executors]

    def hook_folder(self) -> Path | None:
        """The folder where the tests' hook takes orders, if the job was started with it."""
        record = read_record(self._folder)
        with contextlib.suppress(psutil.Error):
            # The supervisor's environment: it survives the driver and is handed on.
            folder = psutil.Process(record.pid).environ().get(_HOOK_VARIABLE) if record else None
            return Path(folder) if folder else None
        return None

    def driver(self) -> SupervisorRecord | None:
        """The supervisor's record of a living driver; None without one."""
        record = read_record(self._folder)
        if record is None or not lives(record.driver_pid, record.driver_born):
            return None
        return record

    def _session(self) -> list[psutil.Process]:
        record = self.driver()
        return session_members(record.driver_pid) if record is not None else []


def identity_of(pid: int) -> str:
    """`<pid>@<seconds after boot>`; empty when there is no such process, or only a zombie."""
    try:
        if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return ""
        return f"{pid}@{after_boot(pid):.2f}"
    except psutil.Error:
        return ""


def tree_of(pid: int) -> list[psutil.Process]:
    """A process and all its descendants, the process first."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def signal_all(processes: Sequence[psutil.Process], number: signal.Signals) -> list[int]:
    """Signals all processes; returns the pids that were there to receive it."""
    reached = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
            reached.append(process.pid)
    return reached


def is_stopped(process: psutil.Process) -> bool:
    """Whether it is stopped by SIGSTOP (state T)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_STOPPED
    return False


def full_disk(process: psutil.Process) -> bool:
    """Whether it may write no byte to any file."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.rlimit(psutil.RLIMIT_FSIZE)[0] == 0
    return False


def volume_of(processes: Sequence[psutil.Process], state_dir: Path) -> int | None:
    """The volume whose lock one of the processes has open."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            for file in process.open_files():
                path = Path(file.path)
                if path.name == ".lock" and path.parents[1] == state_dir:
                    return int(path.parent.name)
    return None


def _executor_number(process: psutil.Process) -> int | None:
    with contextlib.suppress(psutil.Error):
        command = " ".join(process.cmdline())
        found = re.search(r"--executor-id (\d+)", command)
        if _EXECUTOR_CLASS in command and found:
            return int(found.group(1))
    return None
