"""Ends this process at once if it is told to while Spark starts.

Starting Spark takes some seconds, in which PySpark waits for a JVM that ignores SIGINT and knows of
no other signal: an interrupted start would leave the JVM behind.  Nothing of the job has begun, so
nothing has to be ended in order.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import psutil

__all__ = ["end_at_once", "ends_at_once"]

Handler = Callable[[int, FrameType | None], None]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SIGNALLED = 128  # the status of a process that a signal ends, as shells have it


def end_at_once() -> dict[signal.Signals, Any]:
    """From now on a signal ends this process and the processes that it has started.

    Returns:
        The handlers before, by signal.
    """
    return {number: signal.signal(number, _end) for number in _SIGNALS}


@contextmanager
def ends_at_once(then: Handler) -> Iterator[None]:
    """A signal in here ends this process and the processes that it has started.

    Args:
        then: handles signals afterwards.  No moment is between: by default a signal would end this
            process without the JVM.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = end_at_once()
    try:
        yield
    except BaseException:
        for number, handler in before.items():
            signal.signal(number, handler)
        raise
    for number in _SIGNALS:  # whatever Spark has put in their place
        signal.signal(number, then)


def _end(number: int, _: FrameType | None) -> None:
    group = os.getpgid(0)
    for child in psutil.Process().children(recursive=True):
        # Not those that are to outlive this process: they have a group of their own.
        with suppress(OSError, psutil.Error):
            if os.getpgid(child.pid) == group:
                child.kill()
    os.write(2, b"\nStopped.\n")
    os._exit(_SIGNALLED + number)
