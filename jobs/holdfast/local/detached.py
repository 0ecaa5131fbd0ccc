"""Programs of a home that run in the background, whichever command started them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import psutil

from holdfast.errors import Refused
from holdfast.local.probe import HOST, taken
from holdfast.types.births import born, lives, upgraded

__all__ = [
    "STOP_S",
    "alive",
    "end",
    "last_words",
    "launch",
    "locked",
    "recorded",
    "refuse_taken",
    "tail",
    "why_silent",
    "write_whole",
]

STOP_S = 30.0
_START_S = 120.0
_POLL_S = 0.1
_LOG_LINES = 8

# Programs that this process started: kept so that a dead one can be reaped.
_children: dict[int, subprocess.Popen[bytes]] = {}


class _Status(Protocol):
    @property
    def pid(self) -> int: ...

    @property
    def born(self) -> str: ...

    @property
    def port(self) -> int: ...


Status = TypeVar("Status", bound=_Status)


def launch(command: Sequence[str], output: Path) -> tuple[int, str]:
    """Start a program in a session of its own: Ctrl-C in a terminal must not reach it.

    Args:
        output: the file for its output; replaced.

    Returns:
        Its pid and its birth, which tells it from a later process with the same pid.
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
    return process.pid, born(process.pid)


def alive(pid: int, birth: str) -> bool:
    """Whether the program with this pid and birth runs; reaps it if it was this process's."""
    found = lives(pid, birth)
    if not found and pid in _children:
        _children.pop(pid).wait()  # reap it: it has ended
    return found


def recorded(record: Path, kind: Callable[..., Status]) -> Status | None:
    """The running program that a file records as JSON; None if it does not run."""
    try:
        found = kind(**upgraded(json.loads(record.read_text(encoding="utf-8"))))
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return None
    return found if alive(found.pid, found.born) else None


def why_silent(
    name: str, program: _Status, answers: Callable[[int], bool], logs: Sequence[Path]
) -> str:
    """Waits until a program answers on its port; returns why it does not, empty if it does.

    Args:
        name: what messages call it.
        answers: asks once, given the port.
        logs: the files that have its last words.
    """
    deadline = time.monotonic() + _START_S
    while not answers(program.port):
        ended = not alive(program.pid, program.born)
        if ended or time.monotonic() >= deadline:
            what = "ended at once" if ended else f"did not answer within {_START_S:.0f} s"
            return (
                f"{name} (pid {program.pid}, port {program.port}) {what}. "
                f"Its last words:\n{last_words(*logs)}"
            )
        time.sleep(_POLL_S)
    return ""


def end(pid: int, birth: str, how: signal.Signals) -> bool:
    """Signal a program and wait up to `STOP_S`; True once it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).send_signal(how)
    deadline = time.monotonic() + STOP_S
    # Not psutil's wait(): it would hang on a dead child that another process has yet to reap.
    while alive(pid, birth):
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
