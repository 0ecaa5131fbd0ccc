"""The newest changes of a table, read once for all subscribers.

A `Tail` follows every partition of one table and keeps its last changes, up to a limit in bytes.
A subscriber holds a position per partition and takes the changes after it, as long as the tail
still has them.  A subscriber that is further behind reads the changelog itself until it meets the
tail again: it costs its own reads but no memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field

from holdfast.errors import HoldfastError, NoHolder, PositionLost, Retriable
from holdfast.serve.contract import Change, PartitionState, Reader, ServedTable
from holdfast.serve.query.changed import Told
from holdfast.serve.query.evaluate import Evaluation
from holdfast.serve.query.iterators import closing

__all__ = ["LOOK_S", "Entry", "Moved", "Partitions", "Tail"]

_LOG = logging.getLogger(__name__)
Partitions = Callable[[ServedTable], Awaitable[int]]
"""A table's current number of partitions."""

LOOK_S = 5.0  # between checks of the number of partitions
_AGAIN_S = 0.2  # pause after losing a holder
_AGAIN_S_MAX = 5.0
_OVERHEAD = 64  # Python's overhead in bytes per key and per change


@dataclass(eq=False)
class Entry:
    """One change, its start position, and the results that queries have computed from it."""

    start: int
    change: Change
    _results: dict[Evaluation, asyncio.Future[Told]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The approximate size."""
        held = sum(map(len, self.change.keys)) + sum(len(r) for r in self.change.rows if r)
        return held + _OVERHEAD * (1 + len(self.change.keys))

    async def result(self, evaluation: Evaluation, made: Callable[[], Awaitable[Told]]) -> Told:
        """A query's result for the change; the first subscriber computes it for all."""
        found = self._results.get(evaluation)
        if found is None:
            found = self._results[evaluation] = asyncio.ensure_future(made())
        return found.result() if found.done() else await asyncio.shield(found)


class Moved(asyncio.Event):
    """Set at one change of a tail; `next` is set at the following one.

    `partition`: where the change was; None: another event, check all partitions.
    """

    partition: int | None = None
    next: Moved | None = None

    def partitions(self) -> set[int] | None:
        """Partitions that have changed since this event was created; None: check all."""
        found: set[int] = set()
        at: Moved | None = self
        while at is not None and at.is_set():
            if at.partition is None:
                return None
            found.add(at.partition)
            at = at.next
        return found


class _Part:
    """The newest changes of one partition.

    `entries` have no gaps: each starts where the previous one ends.
    """

    def __init__(self, position: int, bytes_max: int) -> None:
        self.position = position
        self._bytes_max = bytes_max
        self._entries: deque[Entry] = deque()
        self._at: dict[int, int] = {}  # an entry's start position -> its sequence number
        self._dropped = 0
        self._bytes = 0

    def add(self, change: Change) -> None:
        entry = Entry(self.position, change)
        self._at[entry.start] = self._dropped + len(self._entries)
        self._entries.append(entry)
        self._bytes += entry.bytes
        self.position = change.position
        while self._bytes > self._bytes_max and self._entries:
            self._drop()

    def _drop(self) -> None:
        oldest = self._entries.popleft()
        del self._at[oldest.start]
        self._bytes -= oldest.bytes
        self._dropped += 1

    def restart(self, position: int) -> None:
        """Drop all entries and continue from a position that does not follow them."""
        while self._entries:
            self._drop()
        self.position = position

    def after(self, position: int) -> Entry | None:
        """The entry after a position, if it is kept."""
        number = self._at.get(position)
        return None if number is None else self._entries[number - self._dropped]

    def meets(self, position: int) -> bool:
        """Whether a subscriber at a position can continue from the tail."""
        return position == self.position or position in self._at


class Tail:
    """Follows one table for its subscribers; started by `start`, stopped by `aclose`.

    Args:
        partitions: gives the table's current number of partitions; the tail ends if it grows.
        old: see `Reader.changes`.
    """

    def __init__(
        self,
        reader: Reader,
        table: ServedTable,
        bytes_max: int,
        partitions: Partitions,
        *,
        old: bool,
    ) -> None:
        self._reader = reader
        self.table = table
        self.old = old
        self._bytes_max = bytes_max
        self._partitions = partitions
        self._parts: dict[int, _Part] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._moved = Moved()
        self._failure: BaseException | None = None
        self.states: dict[int, PartitionState] = {}
        self.subscribers = 0

    async def start(self) -> None:
        """Start at the newest position of every partition.

        Raises:
            NoHolder: a partition of the table has no holder.
        """
        self.states = dict(await self._reader.positions(self.table))
        missing = [p for p in range(self.table.partitions) if p not in self.states]
        if missing:
            raise NoHolder(
                f"no server holds partition {missing[0]} of {self.table.name}"
                f" ({len(missing)} of {self.table.partitions} are missing)",
                action="wait until the query servers are up, and retry.",
            )
        for partition, state in sorted(self.states.items()):
            self._parts[partition] = _Part(state.position, self._bytes_max)
            self._begin(self._follow(partition))
        self._begin(self._watch())

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def stop(self) -> None:
        """Stop following, without waiting for the end."""
        for task in self._tasks:
            task.cancel()

    async def aclose(self) -> None:
        """Stop following, and wait for the end."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def position(self, partition: int) -> int:
        """The tail's position, where a new subscriber starts."""
        return self._parts[partition].position

    def after(self, partition: int, position: int) -> Entry | None:
        """The change after a position; None if it is not available yet, or no longer."""
        return self._parts[partition].after(position)

    def meets(self, partition: int, position: int) -> bool:
        """Whether the tail has, or will have, all changes after a subscriber's position."""
        return self._parts[partition].meets(position)

    @property
    def failed(self) -> bool:
        """Whether the tail has stopped following."""
        return self._failure is not None

    def moved(self) -> Moved:
        """The event of the next change of any partition; get it before looking for changes.

        Raises:
            HoldfastError: the table can no longer be followed.
        """
        if self._failure is not None:
            raise self._failure
        return self._moved

    async def _follow(self, partition: int) -> None:
        part, wait_s = self._parts[partition], _AGAIN_S
        while True:
            try:
                changes = self._reader.changes(
                    self.table, partition, since=part.position, old=self.old
                )
                async with closing(changes):
                    async for change in changes:
                        self._add(partition, change)
                        wait_s = _AGAIN_S
            except PositionLost:
                await self._restart(partition)
            except Retriable as error:
                _LOG.warning("following %s-%d: %s", self.table.name, partition, error.fact)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, _AGAIN_S_MAX)

    async def _watch(self) -> None:
        """End the tail when partitions were added: it would miss their changes.

        Raises:
            Retriable: a subscriber that resumes gets the new partitions from their beginning.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                now = await self._partitions(self.table)
            except HoldfastError as error:
                _LOG.warning("looking at %s: %s", self.table.name, error.fact)
                continue
            if now > self.table.partitions:
                raise Retriable(
                    f"{self.table.name} has {now} partitions now, {self.table.partitions} when "
                    "the query began.",
                    action="resume with the last token (`resume`): no change is left out.",
                )

    async def _restart(self, partition: int) -> None:
        """Continue from now; subscribers that are behind detect the loss themselves."""
        try:
            states = await self._reader.positions(self.table)
        except Retriable:
            return
        if partition in states:
            self._parts[partition].restart(states[partition].position)
            self._wake()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._failure = task.exception()
            self._wake()

    def _add(self, partition: int, change: Change) -> None:
        part = self._parts[partition]
        if change.position > part.position:
            part.add(change)
            self._wake(partition)

    def _wake(self, partition: int | None = None) -> None:
        moved, self._moved = self._moved, Moved()
        moved.partition, moved.next = partition, self._moved
        moved.set()
