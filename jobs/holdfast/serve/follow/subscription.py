"""What carries changes from a follower's thread to one reader on the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from holdfast.serve.contract import Change

__all__ = ["Ended", "Subscription"]

_ROWS_MAX = 50_000  # waiting for a slow reader; it reads the changelog itself after that


class Ended(Exception):
    """No more changes come this way; those after the last position are in the changelog."""


class Subscription:
    """A bounded queue: `put` and `end` from any thread, iteration on the loop that made it.

    A reader that is too slow loses the queue, not changes: it goes on from its position.
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
        """Hand over the next change."""
        self._call(self._take, change)

    def end(self) -> None:
        """There will be no more."""
        self._call(self._close)

    async def next(self) -> Change:
        """The next change, once there is one.

        Raises:
            Ended: there is none, and will be none.
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
