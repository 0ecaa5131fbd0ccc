"""Reads a partition from this server if it holds it, else from the other holders in turn."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from holdfast.errors import NoHolder, Retriable, StoreBehind
from holdfast.serve.cluster.members import Members
from holdfast.serve.cluster.peer import Peer
from holdfast.serve.contract import (
    EVERY_WINDOW,
    Change,
    PartitionState,
    Rows,
    ServedTable,
    WindowBounds,
)
from holdfast.serve.follow.local import LocalReader, Terms

__all__ = ["ClusterReader"]

_POLL_S = 0.02
_AGAIN_S = 0.1
_PATIENCE_S = 5.0  # while no holder answers: a restarted one is back soon
_STRICT_S = 1.0  # how long the next holder may take to reach the last one's position
_HELD_S = 2.0  # an attempt that lasted longer counts as an answer
_Asked = dict[int, list[bytes]]


class ClusterReader:
    """See `Reader`.

    Answers for a partition never go back in time, even when another holder answers: that holder
        gets a moment to reach the position of the previous one.
    """

    def __init__(self, local: LocalReader, members: Members) -> None:
        self._local = local
        self._members = members
        self._answered: dict[tuple[str, int], int] = {}  # last position answered, by partition

    async def get(
        self,
        table: ServedTable,
        keys: Sequence[bytes],
        within: WindowBounds = EVERY_WINDOW,
        *,
        max_lag: int | None = None,
        at_least: Mapping[int, int] | None = None,
    ) -> Rows:
        """See `Reader`."""
        asked: _Asked = defaultdict(list)
        for key in dict.fromkeys(keys):
            place = table.partition_of(key)
            for partition in range(table.partitions) if place is None else (place,):
                asked[partition].append(key)
        terms = Terms(max_lag, at_least or {})
        strict = Terms(max_lag, {p: self._floor(table, p, terms) for p in asked})
        here = {p: k for p, k in asked.items() if self._answers_here(table.held_as, p, strict)}
        found = Rows([], [])
        try:
            found = await self._local.get(table.held_as, here, within, strict)
        except Retriable:  # it has just fallen too far behind
            here = {}
        if len(here) < len(asked):
            others = {p: k for p, k in asked.items() if p not in here}
            parts = (self._from_any(table, p, k, within, terms) for p, k in others.items())
            found = _together([found, *await asyncio.gather(*parts)])
        self._remember(table, found)
        return found

    def _answers_here(self, table: str, partition: int, terms: Terms) -> bool:
        local = self._local
        return local.follows(table, partition) and local.may_answer(table, partition, terms)

    def _ranked(self, table: str, partition: int) -> list[str]:
        """Ids of the partition's holders, best first.

        This server is the first one while it follows the changelog.  Otherwise its store may be as
        old as the server's last run: those that answer come before it.
        """
        servers = self._members.ranked(table, partition)
        if self._local.follows(table, partition):
            return servers
        gone, me = self._members.is_gone, self._members.me
        return sorted(servers, key=lambda server: (gone(server), server == me))

    def _floor(self, table: ServedTable, partition: int, terms: Terms) -> int:
        answered = self._answered.get((table.held_as, partition), 0)
        return max(answered, terms.at_least.get(partition, 0))

    def _remember(self, table: ServedTable, found: Rows) -> None:
        for partition, state in found.states.items():
            self._answered[table.held_as, partition] = state.position

    def _tries(self, table: ServedTable, partition: int, terms: Terms) -> _Tries:
        floor = self._floor(table, partition, terms)
        met = floor == terms.at_least.get(partition, 0)
        strict = terms if met else Terms(terms.max_lag, {partition: floor})
        return _Tries(f"{table.name} partition {partition}", strict, terms)

    async def _from_any(
        self,
        table: ServedTable,
        partition: int,
        keys: list[bytes],
        within: WindowBounds,
        terms: Terms,
    ) -> Rows:
        tries = self._tries(table, partition, terms)
        while True:
            for server in self._ranked(table.held_as, partition):
                try:
                    holder = self._holder(server)
                    return await holder.get(table.held_as, {partition: keys}, within, tries.terms)
                except Retriable as error:
                    tries.failed(error)
            await tries.again()

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
        """See `Reader`.  Losing the holder ends the scan: another one has another snapshot."""
        tries = self._tries(table, partition, Terms(max_lag, at_least or {}))
        while True:
            for server in self._ranked(table.held_as, partition):
                begun = False
                parts = self._holder(server).scan(
                    table.held_as, partition, (start, end), limit, tries.terms
                )
                try:
                    async with aclosing(parts):
                        async for part in parts:
                            begun = True
                            self._remember(table, part)
                            yield part
                except Retriable as error:
                    if begun:
                        raise
                    tries.failed(error)
                else:
                    return
            await tries.again()

    async def positions(self, table: ServedTable) -> Mapping[int, PartitionState]:
        """See `Reader`."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_S
        while True:
            states = {p: self._best(table.held_as, p) for p in range(table.partitions)}
            found = {p: state for p, state in states.items() if state is not None}
            if len(found) == len(states) or asyncio.get_running_loop().time() > deadline:
                return found
            # The peers' states are up to a second old; they may have opened the partition since.
            await self._members.ask_all()
            await asyncio.sleep(_AGAIN_S)

    def _best(self, table: str, partition: int) -> PartitionState | None:
        """This server's state if it follows the changelog, else the best peer's."""
        mine = self._mine(table, partition)
        if mine is not None and self._local.follows(table, partition):
            return mine
        for server in self._ranked(table, partition):
            state = self._members.state_of(server, table, partition)
            if state is not None and not self._members.is_gone(server):
                return state
        return mine

    def _mine(self, table: str, partition: int) -> PartitionState | None:
        try:
            return self._local.standby(table, partition).state()
        except NoHolder:
            return None

    async def await_positions(
        self, table: ServedTable, positions: Mapping[int, int], timeout_s: float
    ) -> None:
        """See `Reader`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while missing := self._missing(table.held_as, positions):
            if loop.time() >= deadline:
                partition, state = missing
                at = state.position if state is not None else "unknown"
                raise StoreBehind(
                    f"After {timeout_s:g} s {table.name} partition {partition} is at position "
                    f"{at}, {positions[partition]} is waited for.",
                    cause="the job has not committed that far yet, or the server is behind.",
                    action="wait longer, or look at the job.",
                )
            await asyncio.sleep(_POLL_S)

    def _missing(
        self, table: str, positions: Mapping[int, int]
    ) -> tuple[int, PartitionState | None] | None:
        for partition, position in positions.items():
            state = self._furthest(table, partition)
            if state is None or state.position < position:
                return partition, state
        return None

    def _furthest(self, table: str, partition: int) -> PartitionState | None:
        told = [self._mine(table, partition)]
        told += [
            self._members.state_of(server, table, partition)
            for server in self._members.plan.holders(table, partition)
            if not self._members.is_gone(server)
        ]
        return max((t for t in told if t is not None), key=lambda t: t.position, default=None)

    async def changes(
        self,
        table: ServedTable,
        partition: int,
        *,
        since: int | None = None,
        snapshot: bool = False,
        old: bool = False,
    ) -> AsyncGenerator[Change, None]:
        """See `Reader`; when a holder is lost, the next one continues from the same position."""
        tries = _Tries(f"{table.name} partition {partition}")
        contents = snapshot and since is None
        if since is None and not contents:
            now = self._best(table.held_as, partition)
            since = now.position if now is not None else None
        while True:
            for server in self._ranked(table.held_as, partition):
                changes = self._holder(server).changes(
                    table.held_as, partition, since, snapshot=contents, old=old
                )
                begun = False
                try:
                    async with aclosing(changes):
                        async for change in changes:
                            yield change
                            begun = True
                            contents = contents and not change.last
                            since = None if contents else change.position
                except Retriable as error:
                    if begun and contents:
                        raise  # half of one snapshot would be followed by half of another
                    tries.failed(error)
            await tries.again()

    def _holder(self, server: str) -> LocalReader | Peer:
        return self._local if server == self._members.me else self._members.peer(server)


class _Tries:
    """Counts failed attempts, and decides how long to retry."""

    def __init__(
        self, name: str, strict: Terms | None = None, relaxed: Terms | None = None
    ) -> None:
        """`strict` are the terms of the first attempts, `relaxed` those of the caller."""
        self._name = name
        self.terms = strict or Terms()
        self._relaxed = relaxed or self.terms
        self._errors: list[Retriable] = []
        self._since = self._last = asyncio.get_running_loop().time()

    def failed(self, error: Retriable) -> None:
        """Record that a holder did not answer, or stopped answering."""
        now = asyncio.get_running_loop().time()
        if now - self._last > _HELD_S:  # it answered until now
            self._since, self._errors = now, []
        self._last = now
        self._errors.append(error)

    async def again(self) -> None:
        """Wait until all holders should be asked again.

        Raises:
            StoreBehind: all holders that answer are too far behind.
            NoHolder: no holder answers.
        """
        behind = next((e for e in self._errors if isinstance(e, StoreBehind)), None)
        now = asyncio.get_running_loop().time()
        if self.terms != self._relaxed:
            if now - self._since > _STRICT_S:
                self.terms = self._relaxed
        elif behind is not None and all(isinstance(e, StoreBehind) for e in self._errors):
            raise behind
        if now - self._since > _PATIENCE_S:
            last = self._errors[-1]
            raise behind or NoHolder(
                f"No server that holds {self._name} answers: {last.fact}",
                cause=last.cause,
                action="wait for one to come back; with --copies 2 another one answers meanwhile.",
            )
        self._errors = self._errors[-1:] if behind is None else [behind]
        self._last = now
        await asyncio.sleep(_AGAIN_S if self.terms == self._relaxed else _POLL_S)


def _together(parts: Sequence[Rows]) -> Rows:
    states: dict[int, PartitionState] = {}
    found = Rows([], [], states)
    for part in parts:
        found.keys.extend(part.keys)
        found.rows.extend(part.rows)
        states.update(part.states)
    return found
