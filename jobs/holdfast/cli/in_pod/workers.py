"""`python -m holdfast.cli.in_pod.workers WHAT`: whether an executor's Python workers can write.

Chaos runs it in the executor's container.  WHAT is `full` (from now on no worker can write to a
file), `free` (those that could not can again) or `look`.  A line per worker: its pid, and the bytes
that a file of it may have (before it was freed), -1 without a limit.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

import psutil

__all__ = ["main"]

_JAVA = Path("/tmp/executor.pid")  # noqa: S108 - the container's own, written by its entry point


def main(what: str) -> None:
    """Sets or lifts the limits; without an executor there is no worker."""
    for pid in _workers():
        with suppress(ProcessLookupError):
            print(pid, _limited(pid, what))  # noqa: T201 - chaos reads it


def _workers() -> list[int]:
    try:
        java = psutil.Process(int(_JAVA.read_text()))
        return [process.pid for process in java.children(recursive=True)]
    except (OSError, psutil.Error):
        return []


def _limited(pid: int, what: str) -> int:
    """The soft limit of a worker's files, after it was set or before it was lifted."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    if what == "full":
        soft = 0
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
    if what == "free" and soft == 0:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    return soft


if __name__ == "__main__":
    main(sys.argv[1])
