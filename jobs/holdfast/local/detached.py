"""Programs of a home that run in the background, whichever command started them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from holdfast.errors import Refused
from holdfast.local.probe import HOST, taken

__all__ = [
    "STOP_S",
    "alive",
    "end",
    "last_words",
    "launch",
    "locked",
    "refuse_taken",
    "tail",
    "write_whole",
]

STOP_S = 30.0
_POLL_S = 0.1
_LOG_LINES = 8

# Programs that this process started: kept so that a dead one can be reaped.
_children: dict[int, subprocess.Popen[bytes]] = {}


def launch(command: Sequence[str], output: Path) -> tuple[int, float]:
    """Start a program in a session of its own: Ctrl-C in a terminal must not reach it.

    Args:
        output: the file for its output; replaced.

    Returns:
        Its pid, and when it was started (seconds since the epoch), which tells it from a later
        process with the same pid.
    """
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[process.pid] = process
    return process.pid, psutil.Process(process.pid).create_time()


def alive(pid: int, created: float) -> bool:
    """Whether the program with this pid and start time (seconds since the epoch) runs."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < 1.0
        found = same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        found = False
    if not found and pid in _children:
        _children.pop(pid).wait()  # reap it: it has ended
    return found


def end(pid: int, created: float, how: signal.Signals) -> bool:
    """Signal a program and wait up to `STOP_S`; True once it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).send_signal(how)
    deadline = time.monotonic() + STOP_S
    # Not psutil's wait(): it would hang on a dead child that another process has yet to reap.
    while alive(pid, created):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock: one start at a time."""
    with (folder / "start.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def refuse_taken(port: int) -> None:
    """Raises `Refused` if another program has the port; names it where the system knows it."""
    if taken(port):
        raise Refused(
            f"Port {port} of {HOST} is in use{_holder(port)}.",
            action="stop that program, or choose another port: --port 0 takes a free one.",
        )


def write_whole(path: Path, text: str) -> None:
    """Replace a small file whole: a reader sees the old or the new one."""
    temporary = path.with_suffix(f"{path.suffix}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def last_words(*files: Path) -> str:
    """The last lines of a program's logs, indented."""
    texts = [p.read_text(encoding="utf-8", errors="replace") for p in files if p.is_file()]
    return tail("\n".join(texts))


def tail(text: str) -> str:
    """The last lines of a text, indented and cut."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line[:300]}" for line in lines[-_LOG_LINES:])


def _holder(port: int) -> str:
    """` by pid 12 (java)` where the system knows it."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            if listens and getattr(connection.laddr, "port", 0) == port and connection.pid:
                return f" by pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    return ""
