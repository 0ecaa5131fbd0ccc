"""The process of a worker: handles one call after the other within a memory limit."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from holdfast.errors import HoldfastError, InvalidStatement
from holdfast.serve.workers.calls import ROWS, evaluated, packed
from holdfast.serve.workers.messages import Answer, Call, too_large
from holdfast.tasks.aggregates.user import load_functions

__all__ = ["serve"]

_NICE = 5  # the server's loop and its followers come first
_GROWN = 0.25  # share of its memory limit that a worker may keep between calls


def serve(answers: int, memory: int) -> None:
    """Answer calls on a socket until it is closed."""
    connection: Connection[Answer, Call] = Connection(answers)
    # DuckDB is started before the first call, and its initial memory does not count to the limit.
    evaluated(f"SELECT n + 1 AS m FROM {ROWS}", (), packed(pa.table({"n": [1]})), memory)
    before = _limit(memory)
    with contextlib.suppress(EOFError, ConnectionError):
        connection.send(Answer())  # ready: the start does not count to a call's time
        while True:
            answer = _answer(connection.recv(), memory)
            answer.last |= _size() - before > memory * _GROWN
            try:
                connection.send(answer)
            except (MemoryError, RecursionError, TypeError, pickle.PicklingError) as error:
                answer = Answer(error=_raised(error, memory), last=True)
                connection.send(answer)
            if answer.last:
                return


def _limit(memory: int) -> int:
    """Limit the process to so much more memory than now; returns its size in bytes.

    Also makes it the kernel's first victim when memory runs out.
    """
    os.nice(_NICE)
    if (size := _size()) > 0:
        resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    return size


def _size() -> int:
    """The process's address space in bytes; 0 if the kernel does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def _answer(call: Call, memory: int) -> Answer:
    try:
        _loaded(call.files)
        return Answer(call.function(*call.args))
    except Exception as error:  # noqa: BLE001 - every error is returned to the caller
        return Answer(error=_raised(error, memory), last=isinstance(error, MemoryError))


def _raised(error: Exception, memory: int) -> Exception:
    """The error that the caller should raise."""
    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, MemoryError):
        return too_large(memory)
    if isinstance(error, RecursionError):
        return InvalidStatement(
            "Statement is too large to parse", cause="too many nested expressions in a statement"
        )
    return RuntimeError(f"{type(error).__name__}: {error}")


@cache
def _loaded(files: tuple[str, ...]) -> None:
    load_functions(files)
