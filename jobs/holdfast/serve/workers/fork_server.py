"""Forks workers: a process that has imported their modules and does nothing else.

So a worker starts within milliseconds, and a killed one is soon replaced.  The server sends a
worker's memory limit with the socket on which it answers; the reply is its pid.  When the server
ends, this process and all workers end, too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys

from holdfast.serve.workers.worker import serve

__all__ = ["MEMORY", "PID", "main"]

MEMORY = struct.Struct(">Q")
PID = struct.Struct(">Q")


def main() -> None:
    """Serve the socket whose descriptor is the only argument, until it is closed."""
    with socket.socket(fileno=int(sys.argv[1])) as control:
        _Forks(control).run()


class _Forks:
    """Owns the workers' processes."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: set[int] = set()

    def run(self) -> None:
        while True:
            memory, sockets, _, _ = socket.recv_fds(self._control, MEMORY.size, 1)
            self._reap()
            if len(memory) < MEMORY.size:
                break
            self._fork(sockets[0], MEMORY.unpack(memory)[0])
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)

    def _fork(self, answers: int, memory: int) -> None:
        pid = os.fork()
        if pid == 0:
            self._control.close()
            serve(answers, memory)
            os._exit(0)
        os.close(answers)
        self._children.add(pid)
        self._control.sendall(PID.pack(pid))

    def _reap(self) -> None:
        """Reap workers that have ended."""
        for pid in tuple(self._children):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._children.discard(pid)


if __name__ == "__main__":
    main()
