"""Push queries: a table's changes, after its contents or from now on, until they are closed.

    snapshot of each partition (earliest) ──► changes: from the shared tail,
                                              or, when behind, from the changelog, until they meet

A subscription owns only a position per partition.  It reads only as fast as its client: a slow
client falls behind the tail and then reads the changelog at its own pace.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Executor

import orjson
import pyarrow as pa

from holdfast.config.settings import ServeSettings
from holdfast.errors import NoHolder, Refused, Retriable
from holdfast.serve.contract import Change, Reader, ServedTable
from holdfast.serve.queries import LIMIT_REACHED, Answer, Ask
from holdfast.serve.query.changed import Told, changed_rows, narrowed, needs_old
from holdfast.serve.query.iterators import Closing, closing, no_batches
from holdfast.serve.query.options import Options
from holdfast.serve.query.plans import Plan
from holdfast.serve.query.tails import Entry, Moved, Partitions, Tail

__all__ = ["Push", "read_token"]

_Key = tuple[str, str, str, int, bool]
_UNTOLD_MAX = 100
_INLINE_MAX = 64  # up to so many plain rows are evaluated on the loop; a thread would cost more


class Push:
    """Starts push queries; owns their shared tails."""

    def __init__(
        self, reader: Reader, pool: Executor, limits: ServeSettings, partitions: Partitions
    ) -> None:
        self._reader = reader
        self._pool = pool
        self._limits = limits
        self._partitions = partitions
        self._tails: dict[_Key, Tail] = {}
        self._starting = asyncio.Lock()

    async def start(self, plan: Plan, ask: Ask, options: Options) -> Answer:
        """Start a push query; its batches end at LIMIT or when they are closed.

        Raises:
            NoHolder: a partition of the table has no holder.
            Refused: the token belongs to another table.
        """
        resumed = read_token(plan.table, ask.token) if ask.token else {}
        tail = await self._join(plan.table, old=needs_old(plan.table, plan.evaluation))
        partitions = range(plan.table.partitions)
        anew = bool(ask.token) or options.from_earliest
        positions = {
            p: resumed[p] if p in resumed else tail.position(p)
            for p in partitions
            if p in resumed or not anew
        }
        answer = Answer(
            plan.read.columns,
            batches=no_batches(),
            states=dict(tail.states),
            token=write_token(plan.table, positions),
            push=True,
            final_message=LIMIT_REACHED,  # nothing else ends it
            tables=(plan.table.name,),
        )
        subscription = Subscription(plan, self._reader, self._pool, tail, positions, answer)
        answer.batches = Closing(subscription.batches(), lambda: self._leave(tail))
        return answer

    async def _join(self, table: ServedTable, *, old: bool) -> Tail:
        async with self._starting:
            tail = self._tails.get(_key(table, old=old))
            if tail is None or tail.failed:
                limit = self._limits.tail_bytes_max
                tail = Tail(self._reader, table, limit, self._partitions, old=old)
                await tail.start()
                self._tails[_key(table, old=old)] = tail
            tail.subscribers += 1
            return tail

    def _leave(self, tail: Tail) -> None:
        tail.subscribers -= 1
        if tail.subscribers == 0:
            tail.stop()
            key = _key(tail.table, old=tail.old)
            if self._tails.get(key) is tail:
                del self._tails[key]

    async def aclose(self) -> None:
        """Stop all tails."""
        tails = list(self._tails.values())
        self._tails.clear()
        for tail in tails:
            await tail.aclose()


def _key(table: ServedTable, *, old: bool) -> _Key:
    return table.name, table.topic, table.statement, table.partitions, old


class Subscription:
    """One running push query.  `positions` lacks partitions whose contents are still to be read."""

    def __init__(
        self,
        plan: Plan,
        reader: Reader,
        pool: Executor,
        tail: Tail,
        positions: dict[int, int],
        answer: Answer,
    ) -> None:
        self._plan = plan
        self._reader = reader
        self._pool = pool
        self._tail = tail
        self._positions = positions
        self._answer = answer
        self._left = plan.read.limit
        self._behind: dict[int, CatchUp] = {}
        self._untold = 0

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """A batch for each change that has rows."""
        try:
            for partition in range(self._plan.table.partitions):
                if partition not in self._positions and self._left != 0:
                    async for batch in self._snapshot(partition):
                        yield batch
            # `due`: partitions that may have changed since `moved` was created.
            moved, due = self._tail.moved(), set(self._positions)
            while self._left != 0:
                idle = True
                for partition in due:
                    entry = self._tail.after(partition, self._positions[partition])
                    change = None if entry is None else entry.change
                    if partition in self._behind or not self._meets(partition):
                        change, entry = await self._next(partition)
                    if change is not None and self._left != 0:
                        idle = False
                        batch = await self._made(change, entry)
                        if batch is not None:
                            yield batch
                if idle:
                    await self._wait(moved)
                    due = moved.partitions() or set(self._positions)
                    due |= set(self._behind)
                    moved = self._tail.moved()
        finally:
            for behind in self._behind.values():
                await behind.aclose()

    async def _snapshot(self, partition: int) -> AsyncGenerator[pa.RecordBatch, None]:
        changes = self._reader.changes(self._plan.table, partition, snapshot=True)
        async with closing(changes):
            async for change in changes:
                batch = await self._made(change, None)
                if batch is None and change.last:
                    # The batch is empty, but the token now resumes after the contents.
                    batch = pa.RecordBatch.from_pylist([], self._plan.evaluation.schema)
                if batch is not None:
                    yield batch
                if change.last or self._left == 0:
                    return

    def _meets(self, partition: int) -> bool:
        return self._tail.meets(partition, self._positions[partition])

    async def _next(self, partition: int) -> tuple[Change | None, Entry | None]:
        """The next change of a partition, if it is available already."""
        position = self._positions[partition]
        behind = self._behind.get(partition)
        if self._meets(partition):
            if behind is not None:
                await self._behind.pop(partition).aclose()
            entry = self._tail.after(partition, position)
            return (None, None) if entry is None else (entry.change, entry)
        if behind is None:
            behind = CatchUp(
                self._reader, self._plan.table, partition, position, old=self._tail.old
            )
            self._behind[partition] = behind
        try:
            return behind.take(), None
        except Retriable:
            del self._behind[partition]
            await behind.aclose()
            await behind.wait_for_holder()
            return None, None

    async def _wait(self, moved: Moved) -> None:
        """Wait for a change of the tail, or of a partition that is behind it."""
        tasks = [b.task for b in self._behind.values()]
        if not tasks:
            await moved.wait()
            return
        tail = asyncio.ensure_future(moved.wait())
        try:
            await asyncio.wait([tail, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            tail.cancel()

    async def _made(self, change: Change, entry: Entry | None) -> pa.RecordBatch | None:
        """The rows of a change; moves the answer's token past the change."""
        plan, evaluation = self._plan, self._plan.evaluation
        wanted = change if plan.within is None else narrowed(change, plan.within.ranges)

        async def made() -> Told:
            if evaluation.plain and len(wanted.keys) <= _INLINE_MAX:
                return changed_rows(plan.table, evaluation, wanted)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._pool, changed_rows, plan.table, evaluation, wanted
            )

        if not wanted.keys:
            told = Told.nothing(evaluation.schema)
        else:
            told = await (made() if entry is None else entry.result(evaluation, made))
        if self._left is not None and told.count > self._left:
            told, self._left = told.first(self._left), 0  # the token repeats this change
        else:
            self._reached(change, told)
        self._answer.committed_ms = change.committed_ms
        return told.batch()

    def _reached(self, change: Change, told: Told) -> None:
        if self._left is not None:
            self._left -= told.count
        if change.snapshot and not change.last:
            return
        self._positions[change.partition] = change.position
        self._untold += 1
        # Most changes have no rows for most subscribers, so their tokens may lag a little.
        if len(told.rows) or change.last or self._untold >= _UNTOLD_MAX:
            self._answer.token = write_token(self._plan.table, self._positions)
            self._untold = 0


def write_token(table: ServedTable, positions: Mapping[int, int]) -> str:
    """A token that resumes after these positions (partition -> position).

    A partition that is left out is read again from its contents.
    """
    places = {str(p): at for p, at in sorted(positions.items())}
    data = orjson.dumps({"table": table.name, "topic": table.topic, "positions": places})
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def read_token(table: ServedTable, token: str) -> dict[int, int]:
    """The positions of a token.

    Raises:
        Refused: it is not a token, or belongs to another table.
    """
    try:
        found = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        of = found["table"], found["topic"]
        positions = {int(p): int(at) for p, at in found["positions"].items()}
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refused(f"{token[:40]!r} is not a token of a push query") from error
    if of != (table.name, table.topic):
        before = " as it was before a rescale" if of[0] == table.name else ""
        raise _refused(f"the token belongs to {of[0]}{before}, the query reads {table.name}")
    if any(not 0 <= p < table.partitions or at < 0 for p, at in positions.items()):
        raise _refused(f"the token has partitions that {table.name} has not")
    return positions


def _refused(fact: str) -> Refused:
    return Refused(fact, action="use the newest token of the same query, or none to start again.")


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
