"""Every process the demo starts, and that none is left.

Each child leads a session of its own: whatever it starts (Spark's JVMs, their Python workers,
which even make process groups of their own) stays in that session, and is found by it after the
child itself was killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

__all__ = ["Child", "Children", "kill_hard", "session_members"]

_STOP_S = 30.0
_POLL_S = 0.1


def session_members(session: int) -> list[psutil.Process]:
    """Live processes of a session, zombies left out."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            same = os.getsid(process.pid) == session
            if same and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def kill_hard(pid: int, wait_s: float = 5.0) -> bool:
    """SIGKILL one process by its pid; True when it was there and is gone."""
    try:
        process = psutil.Process(pid)
        process.kill()
        process.wait(wait_s)
    except psutil.NoSuchProcess:
        return False
    except psutil.TimeoutExpired:
        return process.status() == psutil.STATUS_ZOMBIE
    return True


class Child:
    """One `holdfast` command in the background, and all that it starts."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli.main", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        return self._process.poll()

    def stop(self) -> None:
        """SIGTERM to the command; after half a minute SIGKILL to all of its session."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        self.finish(_POLL_S * 20)

    def finish(self, grace_s: float) -> None:
        """Give the rest of the session some time to end by itself, then SIGKILL it."""
        deadline = time.monotonic() + grace_s
        while (members := session_members(self.pid)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        for process in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if members:
            psutil.wait_procs(members, timeout=5)
        self._process.poll()


class Children:
    """All children of one demo; as a context it ends them all, whatever happens."""

    def __init__(self) -> None:
        self._all: list[Child] = []

    def start(self, arguments: Sequence[str], log: Path) -> Child:
        child = Child(arguments, log)
        self._all.append(child)
        return child

    def stop(self) -> None:
        """End every child and what it started; a second call does nothing."""
        for child in reversed(self._all):
            child.stop()

    def leftovers(self, more_pids: Iterable[int] = ()) -> list[str]:
        """Processes of any child's session, or of these pids, that still live."""
        members = [p for child in self._all for p in session_members(child.pid)]
        found = [f"{p.pid} {_name(p)}" for p in members]
        return found + [f"{pid}" for pid in more_pids if _lives(pid)]


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "?"


def _lives(pid: int) -> bool:
    """Not gone, and not a zombie that only waits for its parent to look."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
