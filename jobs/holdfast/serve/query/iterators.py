"""Async iterators that are closed reliably."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa

__all__ = ["Closing", "closing", "no_batches"]


async def no_batches() -> AsyncIterator[pa.RecordBatch]:
    """An empty iterator."""
    nothing: tuple[pa.RecordBatch, ...] = ()
    for batch in nothing:
        yield batch


@asynccontextmanager
async def closing(iterator: AsyncIterator[Any]) -> AsyncIterator[None]:
    """Context that closes the iterator at the end, if it can be closed."""
    try:
        yield
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()


class Closing:
    """Batches with a callback at their end, which runs even if no batch was read."""

    def __init__(
        self, batches: AsyncGenerator[pa.RecordBatch, None], closed: Callable[[], None]
    ) -> None:
        self._batches = batches
        self._closed: Callable[[], None] | None = closed

    def __aiter__(self) -> Closing:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        try:
            return await anext(self._batches)
        except BaseException:
            self._close()
            raise

    async def aclose(self) -> None:
        """Close the batches."""
        try:
            await self._batches.aclose()
        finally:
            self._close()

    def _close(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()
