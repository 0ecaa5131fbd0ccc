"""Processes of this machine: whole sessions, and whether a recorded process is still alive.

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

from holdfast.types.status import JobState, JobStatus

__all__ = [
    "end_process",
    "end_session",
    "is_running",
    "kill_hard",
    "lives",
    "session_members",
    "taken_over",
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
        process = psutil.Process(pid)
        process.kill()
    except psutil.NoSuchProcess:
        return False
    deadline = time.monotonic() + wait_s
    # Not psutil's wait(): a zombie that its parent does not reap has ended as well.
    while lives(pid, process.create_time()) and time.monotonic() < deadline:
        time.sleep(_POLL_S / 10)
    return not lives(pid, process.create_time())


def lives(pid: int, created: float) -> bool:
    """Whether the process with `pid`, started at `created` (seconds since the epoch), is alive.

    A reused pid does not count, nor does a zombie that waits to be reaped.
    """
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < 1.0
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def taken_over(pid: int, created: float) -> bool:
    """Whether another process has the pid of the one started at `created`."""
    try:
        return abs(psutil.Process(pid).create_time() - created) >= 1.0
    except psutil.Error:
        return False


def end_process(pid: int, created: float, timeout_s: float) -> bool:
    """SIGTERM one process and wait; SIGKILL after `timeout_s`; False when it did not exist."""
    if not lives(pid, created):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while lives(pid, created) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if lives(pid, created):
        kill_hard(pid)
    return True


def is_running(status: JobStatus) -> bool:
    """Whether the driver that wrote this status runs on this machine."""
    if status.state is JobState.STOPPED or not status.pid:
        return False
    try:
        process = psutil.Process(status.pid)
        started = process.create_time()
        alive = process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
    return alive and started <= status.updated_ms / 1000
