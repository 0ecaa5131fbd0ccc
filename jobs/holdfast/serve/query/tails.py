"""The newest changes of a table, read once for all who wait for them.

A `Tail` follows every partition of one table and keeps its last changes, up to a limit in bytes.
Who subscribes holds a position per partition and takes what comes after it, as long as the tail
still has it.  Who is further behind reads the changelog itself until it meets the tail again: a
slow subscriber costs its own reading and nobody's memory.
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
"""How many partitions a table has as it is now."""

LOOK_S = 5.0  # between two looks at how many partitions there are
_AGAIN_S = 0.2  # after a holder went away
_AGAIN_S_MAX = 5.0
_OVERHEAD = 64  # bytes of Python's own, for each key and each change


@dataclass(eq=False)
class Entry:
    """One change, from where to where it goes, and what queries have made of it."""

    start: int
    change: Change
    _results: dict[Evaluation, asyncio.Future[Told]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """About what it holds."""
        held = sum(map(len, self.change.keys)) + sum(len(r) for r in self.change.rows if r)
        return held + _OVERHEAD * (1 + len(self.change.keys))

    async def result(self, evaluation: Evaluation, made: Callable[[], Awaitable[Told]]) -> Told:
        """What a query makes of it: the first who asks has it made, for all."""
        found = self._results.get(evaluation)
        if found is None:
            found = self._results[evaluation] = asyncio.ensure_future(made())
        return found.result() if found.done() else await asyncio.shield(found)


class Moved(asyncio.Event):
    """Set with one change of a tail; the next one is told by `next`.

    `partition` is where it was; None: something else has happened, look everywhere.
    """

    partition: int | None = None
    next: Moved | None = None

    def partitions(self) -> set[int] | None:
        """Where changes were since this one was not set yet; None: look everywhere."""
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

    `entries` follow each other without gap: each starts where the one before it ends.
    """

    def __init__(self, position: int, bytes_max: int) -> None:
        self.position = position
        self._bytes_max = bytes_max
        self._entries: deque[Entry] = deque()
        self._at: dict[int, int] = {}  # start of an entry -> its number since the beginning
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
        """Go on from a place that does not join what is kept."""
        while self._entries:
            self._drop()
        self.position = position

    def after(self, position: int) -> Entry | None:
        """What comes next after a position, if it is kept."""
        number = self._at.get(position)
        return None if number is None else self._entries[number - self._dropped]

    def meets(self, position: int) -> bool:
        """Whether who is there can go on with what the tail has, now or soon."""
        return position == self.position or position in self._at


class Tail:
    """Follows one table for its subscribers; made by `started`, stopped by `aclose`.

    Args:
        partitions: how many the table has now: with more than it had the tail ends.
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
        """Begins at the newest position of every partition.

        Raises:
            NoHolder: nobody holds a partition of the table.
        """
        self.states = dict(await self._reader.positions(self.table))
        missing = [p for p in range(self.table.partitions) if p not in self.states]
        if missing:
            raise NoHolder(
                f"nobody holds partition {missing[0]} of {self.table.name}"
                f" ({len(missing)} of {self.table.partitions} are missing)",
                action="wait until the query servers are up, and ask again.",
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
        """Stops following, soon."""
        for task in self._tasks:
            task.cancel()

    async def aclose(self) -> None:
        """Stops following."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def position(self, partition: int) -> int:
        """Where the tail is: a subscriber that begins now begins here."""
        return self._parts[partition].position

    def after(self, partition: int, position: int) -> Entry | None:
        """The change that comes next after a position; None: not yet, or not any more."""
        return self._parts[partition].after(position)

    def meets(self, partition: int, position: int) -> bool:
        """Whether a subscriber at this position finds all that comes after it here."""
        return self._parts[partition].meets(position)

    @property
    def failed(self) -> bool:
        """Whether it does not follow any more."""
        return self._failure is not None

    def moved(self) -> Moved:
        """Set with the next change of any partition; ask before looking for changes.

        Raises:
            HoldfastError: the table cannot be followed any more.
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
        """Ends the tail when partitions were added: it would never tell what is in them.

        Raises:
            Retriable: who resumes gets the new partitions from their beginning.
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
                    action="ask again with the last token (`resume`): nothing is left out.",
                )

    async def _restart(self, partition: int) -> None:
        """Goes on from now: subscribers that are behind learn of the loss themselves."""
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
