"""A server's process that a test starts, halts and kills."""

from __future__ import annotations

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

__all__ = ["ServerProcess"]

_POLL_S = 0.05


class ServerProcess(ABC):
    """Owns the process from `with` until its end.

    Args:
        log_file: gets the server's output.
    """

    def __init__(self, log_file: Path) -> None:
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> None:
        """Starts it, and waits until it answers."""

    @property
    def log(self) -> str:
        return self._log_file.read_text()

    def kill(self) -> None:
        """SIGKILL: its memory is gone."""
        running = self._running()
        running.kill()
        running.wait()

    def pause(self) -> None:
        """It hangs, until `resume`."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _launch(self, command: Sequence[str], answers: Callable[[], bool], seconds: float) -> None:
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + seconds
        while not answers():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(_POLL_S)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it runs"
        return self._process
