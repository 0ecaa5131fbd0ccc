"""A lock that lets one batch run at a time, and none once the job stops."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Turn"]

_BEAT_S = 0.5
_POLL_S = 0.02
_DOOMED_S = 0.5


class Turn:
    """The lock that the queries of a job take for each batch.

    With one core per executor, concurrent batches would only take each other's executors and send
    state tasks to executors without their stores.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._bars = threading.Lock()
        self._barred: Counter[str] = Counter()  # how many bar a query: a savepoint, a rescale
        self._in_hand = ""  # the query whose batch has the lock, or had it last

    @contextmanager
    def take(
        self,
        beat: Callable[[], None],
        unwanted: Callable[[], bool] = lambda: False,
        query_id: str = "",
    ) -> Iterator[bool]:
        """Waits for the lock; False if the job stops, or `unwanted` becomes true, meanwhile.

        A stream ends only after its batch has returned: a batch that kept waiting for the lock
        would keep the job from ever stopping.

        Args:
            beat: called repeatedly while another batch holds the lock, and once it is taken.
            query_id: whose batch it is; it waits while the query is barred.
        """
        while not self._taken(query_id):
            if self._stopping.is_set() or unwanted():
                yield False
                return
            beat()
        try:
            self._in_hand = query_id
            beat()
            yield not self._stopping.is_set()
        finally:
            self._lock.release()

    def _taken(self, query_id: str) -> bool:
        if self._barred[query_id]:
            time.sleep(_POLL_S)
            return False
        if not self._lock.acquire(timeout=_BEAT_S):
            return False
        if self._barred[query_id]:
            self._lock.release()
            return False
        return True

    @contextmanager
    def barred(self, query_id: str, wait_s: float) -> Iterator[bool]:
        """Lets no batch of a query begin; waits at most `wait_s` seconds for the current one.

        False: it has not ended.
        """
        with self._bars:
            self._barred[query_id] += 1
        try:
            ended = self._lock.acquire(timeout=wait_s)
            if ended:
                self._lock.release()
            yield ended
        finally:
            with self._bars:
                self._barred[query_id] -= 1

    @contextmanager
    def last(
        self, wait_s: float, doomed: Callable[[str], bool] = lambda _query_id: False
    ) -> Iterator[None]:
        """Lets no batch begin; waits at most `wait_s` seconds for the current one.

        Args:
            doomed: takes the id of the current batch's query; whether that batch will hardly end.
                It then gets half a second: executors that end with the job would keep it for as
                long as it is waited for, and the next driver begins it anew.
        """
        self._stopping.set()
        finished = self._finished(time.monotonic() + wait_s, doomed)
        try:
            yield
        finally:
            if finished:
                self._lock.release()

    def _finished(self, deadline: float, doomed: Callable[[str], bool]) -> bool:
        """Whether no batch runs any more; this thread then has the lock."""
        until = deadline
        while not self._lock.acquire(timeout=_POLL_S):
            now = time.monotonic()
            until = min(until, now + _DOOMED_S) if doomed(self._in_hand) else deadline
            if now >= until:
                return False
        return True
