"""The changes of one partition from a position on, for a subscriber that is behind the tail."""

from __future__ import annotations

import asyncio

from holdfast.errors import NoHolder
from holdfast.serve.contract import Change, Reader, ServedTable
from holdfast.serve.query.iterators import closing

__all__ = ["CatchUp"]

_AGAIN_S = 0.5


class CatchUp:
    """Reads one change ahead, so that several partitions can be waited for at a time."""

    def __init__(
        self, reader: Reader, table: ServedTable, partition: int, position: int, *, old: bool
    ) -> None:
        self._changes = reader.changes(table, partition, since=position, old=old)
        self.task: asyncio.Task[Change | None] = asyncio.ensure_future(self._read())

    async def _read(self) -> Change | None:
        return await anext(self._changes, None)

    def take(self) -> Change | None:
        """The change that was read, None while there is none.

        Raises:
            Retriable: whoever was read from is gone; begin anew.
            PositionLost: the changelog does not tell any more what followed.
        """
        if not self.task.done():
            return None
        change = self.task.result()
        if change is None:
            raise NoHolder("changes ended, although there is no end to them.")
        self.task = asyncio.ensure_future(self._read())
        return change

    async def aclose(self) -> None:
        """Stops reading; what was read ahead is read again by who goes on from its position."""
        async with closing(self._changes):
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def wait_for_holder(self) -> None:
        """After an error: a moment for another holder to take over."""
        await asyncio.sleep(_AGAIN_S)
