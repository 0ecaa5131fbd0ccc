"""Starts the demo's processes, and ends them all.

Each child leads a session of its own (`holdfast.local.processes`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from holdfast.local.processes import end_session, session_members

__all__ = ["Child", "Children"]

_STOP_S = 60.0
_LEFT_S = 2.0
# Airflow's tasks find Holdfast's command line by this.
_HERE = {"HOLDFAST_COMMAND": str(Path(sys.executable).parent / "holdfast")}


class Child:
    """One command and all its child processes, in the background unless `wait` is called.

    Args:
        command: the program and its arguments.
        log: file for its output; None for the terminal.
        variables: more of its environment.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(log.open("ab")) if log is not None else None
            self._process = subprocess.Popen(
                command,
                env=_HERE | dict(os.environ) | dict(variables or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if log is not None else None,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        return self._process.poll()

    def wait(self) -> int:
        """Wait for the end; returns the exit status."""
        return self._process.wait()

    def stop(self) -> None:
        """SIGTERM to the command; after a minute SIGKILL to all of its session."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        end_session(self.pid, _LEFT_S)
        self._process.poll()


class Children:
    """All children of one demo; as a context manager it ends them all, whatever happens."""

    def __init__(self) -> None:
        self._all: list[Child] = []

    def start(
        self,
        command: Sequence[str],
        log: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Child:
        child = Child(command, log, variables)
        self._all.append(child)
        return child

    def stop(self) -> None:
        """End all children and their processes; a second call does nothing."""
        for child in reversed(self._all):
            child.stop()

    def leftovers(self, more_pids: Iterable[int] = ()) -> list[str]:
        """Processes of any child's session, or of these pids, that are still alive."""
        members = [p for child in self._all for p in session_members(child.pid)]
        found = [f"{p.pid} {_name(p)}" for p in members]
        return found + [f"{pid}" for pid in more_pids if _lives(pid)]


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "?"


def _lives(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
