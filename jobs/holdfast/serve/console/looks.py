"""Looks into other systems: few at a time, and an answer that all clients ask for is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.errors import Overloaded

__all__ = ["Looks"]

T = TypeVar("T")
_LOOKS_MAX = 2  # at a time, for all clients
_WAIT_S = 5.0
_KEPT_S = 3.0


class Looks:
    """Runs blocking functions in threads.  `at`: what they look at, for people."""

    def __init__(self, at: str) -> None:
        self._at = at
        self._free = asyncio.Semaphore(_LOOKS_MAX)
        self._kept: dict[str, tuple[float, Any]] = {}

    async def once(self, key: str, function: Callable[[], T]) -> T:
        """The result of `function`, or that of the same question, at most 3 s old.

        Raises:
            Overloaded: too many looks are under way.
        """
        at, value = self._kept.get(key, (-_KEPT_S, None))
        if time.monotonic() - at < _KEPT_S:
            kept: T = value
            return kept
        fresh = await self.alone(function)
        now = time.monotonic()
        self._kept = {k: v for k, v in self._kept.items() if now - v[0] < _KEPT_S}
        self._kept[key] = now, fresh
        return fresh

    async def alone(self, function: Callable[[], T]) -> T:
        """The result of `function`.

        Raises:
            Overloaded: too many looks are under way.
        """
        try:
            await asyncio.wait_for(self._free.acquire(), _WAIT_S)
        except TimeoutError:
            raise Overloaded(
                f"{_LOOKS_MAX} looks at {self._at} are under way.", action="try again in a moment"
            ) from None
        # A client that leaves does not end the thread: the next look waits for its real end.
        looking = asyncio.ensure_future(asyncio.to_thread(function))
        looking.add_done_callback(lambda _: self._free.release())
        return await asyncio.shield(looking)
