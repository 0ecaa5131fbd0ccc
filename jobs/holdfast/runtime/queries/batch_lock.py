"""Whose turn it is: one batch at a time, and none any more when the job stops."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Turn"]

_BEAT_S = 0.5


class Turn:
    """Owns the turn of a job's queries.

    With one core per executor, batches of several queries at once would only take each other's
    executors and send state tasks where their stores are not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    @contextmanager
    def take(
        self, beat: Callable[[], None], unwanted: Callable[[], bool] = lambda: False
    ) -> Iterator[bool]:
        """Waits for the turn; False when the job stops or the turn is `unwanted` meanwhile.

        Spark ends a stream only when its batch has returned: one that went on waiting for the
        turn would keep the job from stopping for ever.

        Args:
            beat: called again and again as long as somebody else has the turn, and with it.
        """
        while not self._lock.acquire(timeout=_BEAT_S):
            if self._stopping.is_set() or unwanted():
                yield False
                return
            beat()
        try:
            beat()
            yield not self._stopping.is_set()
        finally:
            self._lock.release()

    @contextmanager
    def last(self, wait_s: float) -> Iterator[None]:
        """No batch begins any more; waits at most `wait_s` seconds for the one in hand."""
        self._stopping.set()
        finished = self._lock.acquire(timeout=wait_s)
        try:
            yield
        finally:
            if finished:
                self._lock.release()
