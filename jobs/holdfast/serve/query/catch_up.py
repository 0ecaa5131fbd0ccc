"""Reads the changes of one partition for a subscriber that is behind the tail."""

from __future__ import annotations

import asyncio

from holdfast.errors import NoHolder
from holdfast.serve.contract import Change, Reader, ServedTable
from holdfast.serve.query.iterators import closing

__all__ = ["CatchUp"]

_AGAIN_S = 0.5


class CatchUp:
    """Reads one change ahead, so that a subscriber can wait for several partitions at once."""

    def __init__(
        self, reader: Reader, table: ServedTable, partition: int, position: int, *, old: bool
    ) -> None:
        self._changes = reader.changes(table, partition, since=position, old=old)
        self.task: asyncio.Task[Change | None] = asyncio.ensure_future(self._read())

    async def _read(self) -> Change | None:
        return await anext(self._changes, None)

    def take(self) -> Change | None:
        """The change that was read, or None if there is none yet.

        Raises:
            Retriable: the holder is gone; start again.
            PositionLost: the changelog no longer holds the changes that followed.
        """
        if not self.task.done():
            return None
        change = self.task.result()
        if change is None:
            raise NoHolder("the stream of changes ended unexpectedly.")
        self.task = asyncio.ensure_future(self._read())
        return change

    async def aclose(self) -> None:
        """Stop reading; a reader that resumes from the position reads the pending change again."""
        async with closing(self._changes):
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def wait_for_holder(self) -> None:
        """Wait a moment after an error for another holder to take over."""
        await asyncio.sleep(_AGAIN_S)
