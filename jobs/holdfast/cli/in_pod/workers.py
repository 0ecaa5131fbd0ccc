"""`python -m holdfast.cli.in_pod.workers WHAT`: limits the files of an executor's Python workers.

Chaos runs it in the executor's container.  WHAT is `full` (workers can no longer write to files),
`free` (lift that limit) or `look`.  Prints a line per worker: its pid, and the file size limit in
bytes (before it was lifted), -1 without a limit.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

import psutil

__all__ = ["main"]

_JAVA = Path("/tmp/executor.pid")  # noqa: S108 - in the container, written by its entry point


def main(what: str) -> None:
    """Set or lift the limits; without an executor there are no workers."""
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
    """A worker's soft limit on file sizes, after it was set or before it was lifted."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    if what == "full":
        soft = 0
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
    if what == "free" and soft == 0:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    return soft


if __name__ == "__main__":
    main(sys.argv[1])
