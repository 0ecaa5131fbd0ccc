"""Processes of this machine: whole sessions, their ends, and whether a job's driver runs.

A command that leads a session keeps everything it starts in it (Spark's JVMs, and their Python
workers, which even make process groups of their own): the session still finds all of it after the
command itself was killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

import psutil

from holdfast.types.births import born, lives
from holdfast.types.status import JobState, JobStatus

__all__ = [
    "end_process",
    "end_session",
    "is_running",
    "kill_hard",
    "session_members",
]

_POLL_S = 0.1
_REAP_S = 5.0


def session_members(session: int) -> list[psutil.Process]:
    """Live processes of a session, zombies left out."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            same = os.getsid(process.pid) == session
            if same and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def end_session(session: int, grace_s: float) -> None:
    """Give a session some time to end by itself, then SIGKILL the rest."""
    deadline = time.monotonic() + grace_s
    while (members := session_members(session)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    for process in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    if members:
        psutil.wait_procs(members, timeout=_REAP_S)


def kill_hard(pid: int, wait_s: float = _REAP_S) -> bool:
    """SIGKILL one process by its pid; True when it existed and has ended."""
    try:
        birth = born(pid)
        psutil.Process(pid).kill()
    except psutil.NoSuchProcess:
        return False
    deadline = time.monotonic() + wait_s
    # Not psutil's wait(): a zombie that its parent does not reap has ended as well.
    while lives(pid, birth) and time.monotonic() < deadline:
        time.sleep(_POLL_S / 10)
    return not lives(pid, birth)


def end_process(pid: int, birth: str, timeout_s: float) -> bool:
    """SIGTERM one process and wait; SIGKILL after `timeout_s`; False when it did not exist."""
    if not lives(pid, birth):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while lives(pid, birth) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if lives(pid, birth):
        kill_hard(pid)
    return True


def is_running(status: JobStatus) -> bool:
    """Whether the driver that wrote this status runs on this machine."""
    if status.state is JobState.STOPPED or not status.pid:
        return False
    if status.born:
        return lives(status.pid, status.born)
    try:  # of an older version
        process = psutil.Process(status.pid)
        started = process.create_time()
        alive = process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
    return alive and started <= status.updated_ms / 1000
