"""PySpark's daemon of Python workers (`spark.python.daemon.module`), a little quieter.

Spark closes a worker's socket when it wants no more of it, a stream's that was stopped for one.
The worker then ends either way; over a Unix domain socket PySpark's daemon also writes a stack
trace, as if something were wrong.  A worker that only restores has no Arrow.
"""

from __future__ import annotations

import socket

from pyspark import daemon

from holdfast.later import load_later

__all__ = ["worker"]

_GONE = 1  # an exit code: the worker is not to be used again
_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """PySpark's worker loop; a socket that was closed ends it."""
    try:
        return _worker(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return _GONE


if __name__ == "__main__":
    load_later()
    daemon.worker = worker
    daemon.manager()
