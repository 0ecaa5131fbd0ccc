"""Reads streams for queries: the records of their topics, read from Kafka for each query.

A stream has no store and no holder; its records are rows that are never removed, its positions are
the offsets of its topic partitions.  Where `Reader` speaks of a table's contents, a stream has all
records that the topic still holds.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from holdfast.errors import DataLoss, NoHolder, PositionLost, StoreBehind, TopicMissing, Unsupported
from holdfast.serve.contract import (
    EVERY_WINDOW,
    Change,
    PartitionState,
    Rows,
    ServedTable,
    WindowBounds,
)
from holdfast.serve.query.tails import LOOK_S
from holdfast.serve.tables import TopicTable
from holdfast.transport.cluster.admin import Admin, TopicInfo
from holdfast.transport.reader import Chunk
from holdfast.transport.tail import Tail, TailReader
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.sources import Source

__all__ = ["Streams"]

T = TypeVar("T")
_TIME = struct.Struct(">q")
_RECORDS_MAX = 2_000  # records per part; they are converted on the loop
_POLL_S = 0.02
_KNOWN_MAX = 1_000


class _Topics(Protocol):
    """See `Admin`."""

    def describe(self, topic: str) -> TopicInfo | None: ...

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]: ...


class _Tail(Protocol):
    """See `TailReader`."""

    def follow(self, topic: str, partition: int, offset: int) -> None: ...

    def poll(self, most: int, wait_s: float) -> Tail: ...

    def close(self) -> None: ...


class Streams:
    """Reads streams; implements `Reader`, except for reads by key.

    Args:
        client: librdkafka properties.
        topics: describes topics, in place of the cluster of `client`; `tail` then reads them.
        schemas: the registry of formats that have one.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        topics: _Topics | None = None,
        tail: Callable[[], _Tail] | None = None,
        schemas: Schemas | None = None,
    ) -> None:
        self._schemas = schemas
        self._tail = tail or (lambda: TailReader(client))
        self._admin = topics or Admin(client)
        self._known: dict[Source, TopicTable] = {}
        self._looked: dict[Source, float] = {}

    def known(self, source: Source) -> TopicTable | None:
        """The stream, if it was opened recently: its topic may have got more partitions since."""
        fresh = time.monotonic() - self._looked.get(source, -LOOK_S) < LOOK_S
        return self._known.get(source) if fresh else None

    async def open(self, source: Source) -> TopicTable:
        """Open a stream: look up its topic's partitions.

        Raises:
            TopicMissing: its topic does not exist.
            InvalidStatement: the stream cannot be decoded.
            RegistryUnavailable: its formats need a registry, and there is none.
        """
        info = await asyncio.to_thread(self._admin.describe, source.topic)
        if info is None:
            raise TopicMissing(
                f"The topic {source.topic} of {source.name} does not exist.",
                action="start the job that makes it, or its producer.",
            )
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
            self._looked.clear()
        self._looked[source] = time.monotonic()
        before = self._known.get(source)
        if before is not None and before.partitions == info.partitions:
            return before
        self._known[source] = TopicTable(
            source.name,
            "",
            source.topic,
            "",
            None,
            source.topic,
            info.partitions,
            source.key_columns,
            source.value_columns,
            source.window,
            source.window_size_ms,
            None,
            source,
            False,
            self._schemas,
        )
        return self._known[source]

    async def partitions(self, table: ServedTable) -> int:
        """The topic's current number of partitions; the previous one if the topic is gone."""
        info = await _off(lambda: self._admin.describe(table.topic))
        if info is None or info.partitions == table.partitions:
            return table.partitions
        self._looked.clear()  # the next query sees the new partitions
        return info.partitions

    async def get(
        self,
        table: ServedTable,
        keys: Sequence[bytes],
        within: WindowBounds = EVERY_WINDOW,
        *,
        max_lag: int | None = None,
        at_least: Mapping[int, int] | None = None,
    ) -> Rows:
        """A stream has no rows by key.

        Raises:
            Unsupported: always.
        """
        raise Unsupported(f"{table.name} is a stream and has no rows by key.")

    async def scan(
        self,
        table: ServedTable,
        partition: int,
        start: bytes = b"",
        end: bytes | None = None,
        *,
        limit: int | None = None,
        max_lag: int | None = None,
        at_least: Mapping[int, int] | None = None,
    ) -> AsyncGenerator[Rows, None]:
        """All records up to the partition's current end."""
        low, high = (await self._bounds(table))[partition]
        states = {partition: PartitionState(partition, high, high)}
        yield Rows([], [], states)
        async for chunk in self._until(table, partition, low, high):
            # A record may have no key: a stream's `decode` accepts that.
            yield Rows(chunk.keys, _rows(chunk), states)  # type: ignore[arg-type]

    async def positions(self, table: ServedTable) -> Mapping[int, PartitionState]:
        """The end offset of each partition."""
        bounds = await self._bounds(table)
        return {p: PartitionState(p, high, high) for p, (_, high) in bounds.items()}

    async def await_positions(
        self, table: ServedTable, positions: Mapping[int, int], timeout_s: float
    ) -> None:
        """Wait until the partitions reach these offsets.

        Raises:
            StoreBehind: they do not in time.
        """

        async def reached() -> None:
            while True:
                ends = await self._bounds(table)
                if all(ends.get(p, (0, 0))[1] >= at for p, at in positions.items()):
                    return
                await asyncio.sleep(_POLL_S)

        try:
            await asyncio.wait_for(reached(), timeout_s)
        except TimeoutError:
            raise StoreBehind(
                f"After {timeout_s:g} s {table.name} does not reach these positions.",
                action="wait longer, or check its producer.",
            ) from None

    async def changes(
        self,
        table: ServedTable,
        partition: int,
        *,
        since: int | None = None,
        snapshot: bool = False,
        old: bool = False,
    ) -> AsyncGenerator[Change, None]:
        """Records as changes; with `snapshot`, first the records that the topic holds now."""
        low, high = (await self._bounds(table))[partition]
        position = high if since is None else since
        if since is not None and not low <= since <= high:
            raise _lost(table, partition, f"{since} is not among offsets {low} to {high}")
        if snapshot and since is None:
            async for chunk in self._until(table, partition, low, high):
                yield _change(partition, chunk, chunk.position, snapshot=True)
                position = max(position, chunk.position)
            yield Change(partition, [], [], position, snapshot=True, last=True)
        async for news, _ in self._following(table, partition, position):
            if news is not None:
                yield _change(partition, news, news.position, snapshot=False)

    async def _until(
        self, table: ServedTable, partition: int, start: int, end: int
    ) -> AsyncGenerator[Chunk, None]:
        if start >= end:
            return
        async for chunk, reached in self._following(table, partition, start):
            if chunk is not None:
                yield chunk
            if reached >= end:
                return

    async def _following(
        self, table: ServedTable, partition: int, start: int
    ) -> AsyncGenerator[tuple[Chunk | None, int], None]:
        """Records from an offset on, without end, each part with the offset reached after it."""
        place, reader = (table.topic, partition), self._tail()
        try:
            reader.follow(table.topic, partition, start)
            while True:
                tail = reader.poll(_RECORDS_MAX, 0)
                if place in tail.failed:
                    raise self._ended(table, partition, tail.failed[place])
                chunk, end = tail.chunks.get(place), tail.ends.get(place, 0)
                yield chunk, max(end, 0 if chunk is None else chunk.position)
                if chunk is None:
                    await asyncio.sleep(_POLL_S)
        finally:
            await asyncio.to_thread(reader.close)

    def _ended(self, table: ServedTable, partition: int, error: Exception) -> Exception:
        return _lost(table, partition, str(error)) if isinstance(error, DataLoss) else error

    async def _bounds(self, table: ServedTable) -> dict[int, tuple[int, int]]:
        bounds = await _off(lambda: self._admin.bounds(table.topic))
        if len(bounds) < table.partitions:
            raise NoHolder(f"The topic {table.topic} has fewer partitions than before.")
        return bounds


async def _off(function: Callable[[], T]) -> T:
    return await asyncio.to_thread(function)


def _rows(chunk: Chunk) -> list[bytes]:
    times = (max(0, time) for time in chunk.timestamps)
    rows = zip(times, chunk.values, strict=True)
    return [_TIME.pack(t) + v if v is not None else None for t, v in rows]  # type: ignore[misc]


def _change(partition: int, chunk: Chunk, position: int, *, snapshot: bool) -> Change:
    """Records as a change without old rows; records without a value are not rows of a stream."""
    rows = _rows(chunk)
    old: list[bytes | None] = [None] * len(rows)
    return Change(
        partition,
        chunk.keys,  # type: ignore[arg-type]  # as in `scan`
        list(rows),
        position,
        old=old,
        snapshot=snapshot,
        committed_ms=chunk.timestamps[-1] if len(chunk) else 0,
    )


def _lost(table: ServedTable, partition: int, how: str) -> PositionLost:
    return PositionLost(
        f"{table.name} partition {partition} cannot be read from there: {how}.",
        cause="retention deleted the records, or the topic was made anew.",
        action="read the stream from its beginning, or from now on.",
    )
