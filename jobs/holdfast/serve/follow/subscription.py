"""Carries changes from a follower's thread to one reader on the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from holdfast.serve.contract import Change

__all__ = ["Ended", "Subscription"]

_ROWS_MAX = 50_000  # queued for a slow reader; beyond that it reads the changelog itself


class Ended(Exception):
    """The subscription has ended; changes after the last position are in the changelog."""


class Subscription:
    """A bounded queue: `put` and `end` from any thread, iteration on the loop that made it.

    A reader that is too slow loses the queue but no changes: it continues from its position.
    """

    def __init__(self, rows_max: int = _ROWS_MAX, *, wants_old: bool = False) -> None:
        """`wants_old`: see `Reader.changes`."""
        self.wants_old = wants_old
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Change] = deque()
        self._rows = 0
        self._rows_max = rows_max
        self._ended = False
        self._news = asyncio.Event()

    def put(self, change: Change) -> None:
        """Queue the next change."""
        self._call(self._take, change)

    def end(self) -> None:
        """End the subscription: no more changes will be queued."""
        self._call(self._close)

    async def next(self) -> Change:
        """Wait for the next change.

        Raises:
            Ended: there will be no more changes.
        """
        while not self._waiting:
            if self._ended:
                raise Ended
            self._news.clear()
            await self._news.wait()
        change = self._waiting.popleft()
        self._rows -= len(change.keys)
        return change

    def _call(self, function: Callable[..., None], *arguments: Change) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop has been closed, and the reader with it
            return

    def _take(self, change: Change) -> None:
        if self._ended:
            return
        self._waiting.append(change)
        self._rows += len(change.keys)
        if self._rows > self._rows_max and len(self._waiting) > 1:
            self._waiting.clear()
            self._rows, self._ended = 0, True
        self._news.set()

    def _close(self) -> None:
        self._ended = True
        self._news.set()
