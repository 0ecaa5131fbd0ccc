"""One command as a process of this machine, its output in a log."""

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

__all__ = ["Process"]

_LINES_KEPT = 80  # as many as Kubernetes keeps of a failed container
_GRACE_S, _LOOK_EVERY_S = 30.0, 0.1
# What a shell without job control starts in the background ignores interrupts, all that it starts
# does so as well, and a shell among that cannot take it back.
_INTERRUPTIBLE = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    " os.execvp(sys.argv[1], sys.argv[1:])"
)


class Process:
    """Owns a process and those it starts, from its start to its end.

    Args:
        command: the program and its arguments.
        environment: all of its environment.

    Attributes:
        stopped: it was told to end.
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
        self._last_lines: deque[str] = deque(maxlen=_LINES_KEPT)

    def follow(self, tell: Callable[[str], object]) -> int:
        """Gives every line of output to `tell` until the process ends; returns its exit status.

        The process does not outlive this call, whatever ends it.
        """
        # What the process leaves running on purpose may keep its end of the pipe open.
        reader = threading.Thread(target=self._read, args=(tell,), daemon=True)
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
        """Asks the process to end, which `follow` gives 30 s.  Fit for a signal handler."""
        if self._process.poll() is None:
            self.stopped = True
            self._process.terminate()

    def _await(self) -> None:
        # Popen.wait holds a lock that a signal handler, which runs in this thread, would wait for.
        deadline = None
        while self._process.poll() is None:
            if self.stopped and deadline is None:
                deadline = time.monotonic() + _GRACE_S
            if deadline is not None and time.monotonic() > deadline:
                self._kill()
            time.sleep(_LOOK_EVERY_S)

    def _read(self, tell: Callable[[str], object]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.rstrip()
            self._last_lines.append(text)
            tell(text)

    def _kill(self) -> None:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            for each in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    each.kill()


def _prefix() -> list[str]:
    """Lets a command be interrupted where Airflow itself is not to be."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        return []
    return [sys.executable, "-c", _INTERRUPTIBLE]
