"""One command as a process on this machine, with its output in a log."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import psutil

__all__ = ["Elapsed", "Process"]

_LINES_KEPT = 80  # as many as Kubernetes keeps of a failed container
_GRACE_S, _LOOK_EVERY_S = 30.0, 0.1
_QUIET_S = 15.0
# A background process of a shell without job control ignores interrupts, its children do as well,
# and a shell among these cannot undo it.
_INTERRUPTIBLE = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    " os.execvp(sys.argv[1], sys.argv[1:])"
)


class Elapsed:
    """Passes lines on with the seconds since it was made: `[ 12 s] starting Spark …`."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell, self._began = tell, time.monotonic()

    def tell(self, line: str) -> None:
        """Pass one line on; an empty one stays empty."""
        seconds = time.monotonic() - self._began
        self._tell(f"[{seconds:3.0f} s] {line}" if line else line)


class Process:
    """Owns a process and its children, from its start to its end.

    Args:
        command: the program and its arguments.
        environment: all of its environment.

    Attributes:
        stopped: whether it was asked to end.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [*_prefix(), *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        self.stopped = False
        self._said = time.monotonic()
        self._tell: Callable[[str], object] = _nobody
        self._last_lines: deque[str] = deque(maxlen=_LINES_KEPT)

    def follow(self, tell: Callable[[str], object]) -> int:
        """Pass every line of output to `tell` until the process ends; returns its exit status.

        While the process says nothing, a line now and then says that it goes on.  It does not
        outlive this call, however it ends.
        """
        self._tell = tell
        # Processes that it leaves running on purpose may keep their end of the pipe open.
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        try:
            self._await()
        except BaseException:
            self.stop()
            self._await()
            raise
        reader.join(timeout=2)
        return int(self._process.returncode)

    def tail(self) -> str:
        """The last lines of output."""
        return "\n".join(self._last_lines)

    def stop(self) -> None:
        """Ask the process to end; `follow` waits 30 s for it.  Safe in a signal handler."""
        if self._process.poll() is None:
            self.stopped = True
            self._process.terminate()

    def _await(self) -> None:
        # Popen.wait holds a lock, for which a signal handler in this thread would deadlock.
        deadline = None
        while self._process.poll() is None:
            if time.monotonic() - self._said > _QUIET_S:
                self._say("… goes on")
            if self.stopped and deadline is None:
                deadline = time.monotonic() + _GRACE_S
            if deadline is not None and time.monotonic() > deadline:
                self._kill()
            time.sleep(_LOOK_EVERY_S)

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        self._tell(text)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.rstrip()
            self._last_lines.append(text)
            self._say(text)

    def _kill(self) -> None:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            for each in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    each.kill()


def _nobody(_line: str) -> None:
    """Takes lines before `follow` is called: there are none."""


def _prefix() -> list[str]:
    """A prefix that makes a command interruptible where Airflow ignores interrupts."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        return []
    return [sys.executable, "-c", _INTERRUPTIBLE]
