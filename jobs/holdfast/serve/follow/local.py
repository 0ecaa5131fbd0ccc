"""Reads from this server's own stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeVar

from holdfast.errors import NoHolder, Retriable, StoreBehind, StoreLocked
from holdfast.serve.contract import Change, PartitionState, Rows, WindowBounds
from holdfast.serve.follow.log import Log
from holdfast.serve.follow.standby import Standby
from holdfast.serve.follow.subscription import Ended, Subscription

__all__ = ["LocalReader", "Terms"]

_INLINE_MAX = 64  # up to so many keys are looked up on the loop; a thread would cost more
_PART_ROWS = 1_000
_POLL_S = 0.02
_CATCH_UP_S = 30.0
_T = TypeVar("_T")


@dataclass(frozen=True)
class Terms:
    """How far behind a store may be, see `Reader`."""

    max_lag: int | None = None
    at_least: Mapping[int, int] = field(default_factory=dict)

    def why_not(self, state: PartitionState) -> str | None:
        """Why a store in this state may not answer, or None if it may."""
        wanted = self.at_least.get(state.partition, 0)
        if state.position < wanted:
            return f"it is at position {state.position}, {wanted} is asked for"
        if self.max_lag is None:
            return "it is being restored" if state.restoring else None
        if state.lag > self.max_lag:
            return f"it is {state.lag} offsets behind, {self.max_lag} are allowed"
        return None


class LocalReader:
    """Owns the reading threads; `find` gives the standby of (table, partition)."""

    def __init__(self, find: Callable[[str, int], Standby | None], log: Log, server: str) -> None:
        self._find = find
        self._log = log
        self._server = server
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="read")

    def close(self) -> None:
        """Stop the threads after running reads have ended."""
        self._threads.shutdown(cancel_futures=True)

    def standby(self, table: str, partition: int) -> Standby:
        """The standby of a partition.

        Raises:
            NoHolder: it is not held here.
        """
        found = self._find(table, partition)
        if found is None:
            raise NoHolder(
                f"Server {self._server} does not hold {table} partition {partition}.",
                action="ask another server.",
            )
        if found.is_foreign:
            raise NoHolder(
                f"{found.name} on server {self._server} has the rows of another statement.",
                cause=found.error or "the statement was changed, its job has not been started anew",
                action="undo the change, or run the changed job under a new application.id.",
            )
        return found

    def may_answer(self, table: str, partition: int, terms: Terms) -> bool:
        """Whether the partition's store is here and within the terms."""
        found = self._find(table, partition)
        usable = found is not None and not found.is_foreign
        return usable and found is not None and terms.why_not(found.state()) is None

    def follows(self, table: str, partition: int) -> bool:
        """Whether the partition's store is here and takes each change as it is committed."""
        found = self._find(table, partition)
        return found is not None and found.following

    async def get(
        self, table: str, asked: Mapping[int, Sequence[bytes]], within: WindowBounds, terms: Terms
    ) -> Rows:
        """Rows of keys by partition.

        Raises:
            NoHolder, StoreBehind: for one of the partitions.
        """
        if sum(map(len, asked.values())) <= _INLINE_MAX:
            return self._get(table, asked, within, terms)
        return await self._in_thread(lambda: self._get(table, asked, within, terms))

    def _get(
        self, table: str, asked: Mapping[int, Sequence[bytes]], within: WindowBounds, terms: Terms
    ) -> Rows:
        found = Rows([], [], states := {})
        for partition, keys in asked.items():
            standby = self.standby(table, partition)
            try:
                if standby.table.window is None:
                    part = standby.get(keys)
                else:
                    part = standby.get_windows(keys, within)
            except StoreLocked as closed:
                raise _closed(standby) from closed
            self._check(standby, part.state, terms)
            states[partition] = part.state
            found.keys.extend(key for key, _ in part.rows)
            found.rows.extend(row for _, row in part.rows)
        return found

    def _check(self, standby: Standby, state: PartitionState, terms: Terms) -> None:
        reason = terms.why_not(state)
        if reason is not None:
            raise StoreBehind(
                f"{standby.name} on server {self._server} cannot answer: {reason}.",
                cause=standby.error or "",
                action="try again soon, or allow more lag.",
            )

    async def scan(
        self,
        table: str,
        partition: int,
        bounds: tuple[bytes, bytes | None],
        limit: int | None,
        terms: Terms,
    ) -> AsyncGenerator[Rows, None]:
        """Rows of a range, in a snapshot taken at the first part."""
        standby = self.standby(table, partition)
        state, rows = await self._in_thread(lambda: standby.scan(*bounds, limit))
        self._check(standby, state, terms)
        async with aclosing(self._parts(rows)) as parts:
            async for part in parts:
                yield Rows([k for k, _ in part], [r for _, r in part], {partition: state})

    async def _parts(
        self, rows: Iterator[tuple[bytes, bytes]]
    ) -> AsyncGenerator[list[tuple[bytes, bytes]], None]:
        """At least one part; the last one is not full."""
        while True:
            part = await self._in_thread(lambda: list(islice(rows, _PART_ROWS)))
            yield part
            if len(part) < _PART_ROWS:
                return

    async def changes(
        self, table: str, partition: int, since: int | None, *, snapshot: bool, old: bool = False
    ) -> AsyncGenerator[Change, None]:
        """See `Reader.changes`; ends when the standby stops following.

        Raises:
            NoHolder: the partition is not held here, or its changelog is not followed.
            StoreBehind: the store does not reach `since`.
            PositionLost: see `Reader.changes`.
        """
        standby = self.standby(table, partition)
        subscription = Subscription(wants_old=old)
        try:
            if snapshot and since is None:
                state, rows = await self._in_thread(lambda: standby.snapshot(subscription))
                async for part in self._contents(state, rows):
                    yield part
                since = state.position
            while True:
                async for change in self._from(standby, subscription, since):
                    yield change
                    since = change.position
                if not standby.following:
                    raise _closed(standby)
                if since is None:
                    since = standby.changed_at
                subscription = Subscription(wants_old=old)
        finally:
            standby.unsubscribe(subscription)

    async def _contents(
        self, state: PartitionState, rows: Iterator[tuple[bytes, bytes]]
    ) -> AsyncGenerator[Change, None]:
        async with aclosing(self._parts(rows)) as parts:
            async for part in parts:
                yield Change(
                    state.partition,
                    [k for k, _ in part],
                    [r for _, r in part],
                    state.position,
                    snapshot=True,
                    last=len(part) < _PART_ROWS,
                )

    async def _from(
        self, standby: Standby, subscription: Subscription, since: int | None
    ) -> AsyncGenerator[Change, None]:
        """Changes after `since` until the subscription ends."""
        if since is not None:
            await self._reached(standby, since)
        at = (await self._in_thread(lambda: standby.subscribe(subscription))).position
        while since is not None and since < min(at, standby.changed_at):
            change, since = await self._in_thread(partial(self._missed, standby, since, at))
            if change.keys:
                yield change
        while True:
            try:
                change = await subscription.next()
            except Ended:
                return
            if change.position > at:
                yield change

    def _missed(self, standby: Standby, since: int, end: int) -> tuple[Change, int]:
        return self._log.next(standby.table, standby.partition, since, end)

    async def _reached(self, standby: Standby, since: int) -> None:
        """Wait for a store that is behind a reader that comes from another server."""
        deadline = asyncio.get_running_loop().time() + _CATCH_UP_S
        while standby.state().position < since:
            if asyncio.get_running_loop().time() > deadline:
                raise StoreBehind(
                    f"{standby.name} is at {standby.state().position}, the reader at {since}.",
                    action="read the table's contents again if its topic was replaced.",
                )
            await asyncio.sleep(_POLL_S)

    async def _in_thread(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)


def _closed(standby: Standby) -> Retriable:
    return NoHolder(
        f"{standby.name} is not followed here any more.",
        cause=standby.error or "it moved to another server, or the server stops",
        action="ask another server.",
    )
