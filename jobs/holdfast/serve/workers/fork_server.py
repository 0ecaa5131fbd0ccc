"""Makes workers by forking: a process that has imported what they need, and does nothing else.

A worker so begins within milliseconds, and a killed one is soon replaced.  The server sends a byte
for what is to be done and a number:

    F memory  + a socket   fork a worker that answers on the socket; the reply is its pid
    K pid                  kill a worker; it is this process's child, so no other has its pid

The end of the server ends this process and all workers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys

from holdfast.serve.workers.worker import serve

__all__ = ["MESSAGE", "PID", "main"]

MESSAGE = struct.Struct(">cQ")
PID = struct.Struct(">Q")


def main() -> None:
    """Serves the socket whose number is the only argument, until it ends."""
    with socket.socket(fileno=int(sys.argv[1])) as control:
        _Forks(control).run()


class _Forks:
    """Owns the workers' processes."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: set[int] = set()

    def run(self) -> None:
        while True:
            message, sockets, _, _ = socket.recv_fds(self._control, MESSAGE.size, 1)
            self._reap()
            if len(message) < MESSAGE.size:
                break
            what, number = MESSAGE.unpack(message)
            if what == b"F":
                self._fork(sockets[0], number)
            else:
                self._kill(number)
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

    def _kill(self, pid: int) -> None:
        if pid in self._children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._children.discard(pid)

    def _reap(self) -> None:
        """Takes leave of workers that have ended by themselves."""
        for pid in tuple(self._children):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._children.discard(pid)


if __name__ == "__main__":
    main()
