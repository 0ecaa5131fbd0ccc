"""A peer's processes: started each in a session of its own, sampled, killed, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from holdfast.local.processes import end_session, kill_hard
from tests.bench.measure.measure import Tree
from tests.bench.systems.peers import Case, Command, Peer

__all__ = ["Running"]

_STOP_S = 40.0
_KEEP_CHARS = 2_000


class Running:
    """Owns the processes of one run from `with` to its end; `spawned` on the monotonic clock."""

    def __init__(self, peer: Peer, case: Case) -> None:
        self._case = case
        self._commands: Sequence[Command] = peer.commands(case)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._sessions: list[int] = []
        self.tree = Tree()
        self.spawned = 0.0

    def __enter__(self) -> Self:
        self._case.folder.mkdir(parents=True, exist_ok=True)
        self.spawned = time.monotonic()
        self._processes = [self._spawn(n, "wb") for n in range(len(self._commands))]
        self.tree.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.tree.stop()
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for session in self._sessions:
            end_session(session, 2.0)

    @property
    def pids(self) -> list[int]:
        """The pids of the commands, in order."""
        return [process.pid for process in self._processes]

    def check(self) -> None:
        """Raises RuntimeError, with its last words, when a process has ended by itself."""
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                log = self._case.folder / f"out-{number}.log"
                words = log.read_text(encoding="utf-8", errors="replace")[-_KEEP_CHARS:]
                raise RuntimeError(f"process {number} ended with {process.returncode}:\n{words}")

    def kill(self, pid: int, *, restart: bool) -> None:
        """SIGKILL; `restart` starts the command again whose process it was."""
        kill_hard(pid)
        if restart:
            number = self.pids.index(pid)
            self._processes[number].wait()
            self._processes[number] = self._spawn(number, "ab")

    def _spawn(self, number: int, mode: str) -> subprocess.Popen[bytes]:
        command = self._commands[number]
        with (self._case.folder / f"out-{number}.log").open(mode) as output:
            process = subprocess.Popen(
                [*self._case.under, *command.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **command.env},
                start_new_session=True,
            )
        self.tree.add(process.pid)
        self._sessions.append(process.pid)
        return process
