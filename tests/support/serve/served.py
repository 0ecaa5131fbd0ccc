"""A table whose rows and history are in dicts: what a query reads, without brokers and stores."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast.errors import HoldfastError, NoHolder, PositionLost, StoreBehind
from holdfast.serve.contract import (
    EVERY_WINDOW,
    Change,
    PartitionState,
    Rows,
    ServedTable,
    Unserved,
    WindowBounds,
)
from holdfast.serve.tables import StoredTable, candidates
from holdfast.sql import compile_text
from holdfast.types.statements.topology import Topology

__all__ = ["DictCatalog", "DictReader", "stored_json", "tables_of"]


def tables_of(script: str, partitions: int = 1) -> dict[str, StoredTable]:
    """The tables of a script by name."""
    found = candidates(compile_text(script), "app")
    return {c.name: c.made(partitions) for c in found.tables}


def stored_json(time: int, value: Mapping[str, Any]) -> bytes:
    """A row of a table over a topic: its time, and its value in JSON."""
    return struct.pack(">q", time) + orjson.dumps(value)


class DictCatalog:
    """A script's tables, each with as many partitions."""

    def __init__(self, script: str, partitions: int = 1) -> None:
        self._script = script
        self._tables = tables_of(script, partitions)
        self.version = 1

    def tables(self) -> Mapping[str, ServedTable]:
        return self._tables

    def grow(self, partitions: int) -> None:
        """Every table has so many partitions from now on."""
        self._tables = tables_of(self._script, partitions)

    def table(self, name: str) -> StoredTable:
        """A table by its name in any case."""
        return self._tables[name.upper()]

    def unserved(self) -> Mapping[str, Unserved]:
        return {u.name: u for u in candidates(self.topology(), "app").unserved}

    def topology(self) -> Topology:
        return compile_text(self._script)

    def script(self) -> str:
        return self._script


@dataclass
class _Partition:
    rows: dict[bytes, bytes] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    position: int = 0
    kept_from: int = 0


class DictReader:
    """Keeps the contract of `Reader`: each partition is one history of transactions.

    A transaction takes as many offsets as it has rows, and one for its commit marker.
    `reads` counts what was asked for; so many `failures` are left to readers of changes.
    """

    def __init__(self, table: StoredTable, *, batch: int = 1000) -> None:
        self._table = table
        self._batch = batch
        self._parts = [_Partition() for _ in range(table.partitions)]
        self._moved = asyncio.Event()
        self.reads = {"get": 0, "scan": 0, "snapshot": 0, "since": 0}
        self.scanned: list[tuple[int, bytes, bytes | None]] = []
        self.pause: asyncio.Event | None = None
        self.failures = 0
        self.failure: HoldfastError = NoHolder("whoever was read from is gone")

    def commit(self, rows: Mapping[bytes, bytes | None], partition: int | None = None) -> None:
        """One transaction per partition; keys are stored keys."""
        spread: dict[int, dict[bytes, bytes | None]] = {}
        for key, row in rows.items():
            place = self._place(key) if partition is None else partition
            spread.setdefault(place, {})[key] = row
        for place, changed in spread.items():
            self._apply(place, dict(sorted(changed.items())))
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _place(self, key: bytes) -> int:
        plain = key if self._table.window is None else self._table.split(key)[0]
        return self._table.partition_of(plain) or 0

    def _apply(self, place: int, changed: dict[bytes, bytes | None]) -> None:
        part = self._parts[place]
        old = [part.rows.get(k) for k in changed]
        part.position += len(changed) + 1
        part.history.append(
            Change(place, list(changed), list(changed.values()), part.position, old=old)
        )
        for key, row in changed.items():
            if row is None:
                part.rows.pop(key, None)
            else:
                part.rows[key] = row

    def grow(self, partitions: int) -> None:
        """So many partitions; those that are new are empty."""
        self._parts += [_Partition() for _ in range(partitions - len(self._parts))]

    def forget(self) -> None:
        """Drops the history so far, as retention would."""
        for part in self._parts:
            part.history.clear()
            part.kept_from = part.position

    def contents(self) -> dict[bytes, bytes]:
        """All rows there are."""
        return {k: r for part in self._parts for k, r in part.rows.items()}

    def _state(self, place: int) -> PartitionState:
        position = self._parts[place].position
        return PartitionState(place, position, position, server="0")

    async def get(
        self,
        table: ServedTable,
        keys: Sequence[bytes],
        within: WindowBounds = EVERY_WINDOW,
        *,
        max_lag: int | None = None,
        at_least: Mapping[int, int] | None = None,
    ) -> Rows:
        self.reads["get"] += 1
        if self.pause is not None:
            await self.pause.wait()
        rows = sorted(self.contents().items())
        if self._table.window is None:
            found = [(k, r) for k, r in rows if k in set(keys)]
        else:
            found = [(k, r) for key in keys for k, r in rows
                     if self._table.is_within(k, key, within)]  # fmt: skip
        states = {p: self._state(p) for p in {self._table.partition_of(k) or 0 for k in keys}}
        return Rows([k for k, _ in found], [r for _, r in found], states)

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
    ) -> AsyncIterator[Rows]:
        self.reads["scan"] += 1
        self.scanned.append((partition, start, end))
        rows = sorted(self._parts[partition].rows.items())
        rows = [(k, r) for k, r in rows if k >= start and (end is None or k < end)]
        states = {partition: self._state(partition)}
        for at in range(0, max(len(rows), 1), self._batch):
            if self.pause is not None:
                await self.pause.wait()
            part = rows[at : at + self._batch]
            yield Rows([k for k, _ in part], [r for _, r in part], states)

    async def positions(self, table: ServedTable) -> Mapping[int, PartitionState]:
        return {p: self._state(p) for p in range(len(self._parts))}

    async def await_positions(
        self, table: ServedTable, positions: Mapping[int, int], timeout_s: float
    ) -> None:
        async def reached() -> None:
            while any(self._parts[p].position < at for p, at in positions.items()):
                await self._moved.wait()

        try:
            await asyncio.wait_for(reached(), timeout_s)
        except TimeoutError:
            raise StoreBehind("not reached in time") from None

    async def changes(
        self,
        table: ServedTable,
        partition: int,
        *,
        since: int | None = None,
        snapshot: bool = False,
        old: bool = False,
    ) -> AsyncIterator[Change]:
        part = self._parts[partition]
        self.reads["snapshot" if snapshot else "since"] += 1
        position = part.position if since is None else since
        if snapshot:
            for change in self._contents(partition):
                yield change
        while True:
            if self.failures:
                self.failures -= 1
                raise self.failure
            if position < part.kept_from:
                raise PositionLost(f"position {position} is gone")
            moved = self._moved
            following = next((c for c in part.history if c.position > position), None)
            if following is None:
                await moved.wait()
            else:
                position = following.position
                yield following

    def _contents(self, partition: int) -> list[Change]:
        part = self._parts[partition]
        rows = sorted(part.rows.items())
        cuts = [rows[at : at + self._batch] for at in range(0, max(len(rows), 1), self._batch)]
        return [
            Change(
                partition,
                [k for k, _ in cut],
                [r for _, r in cut],
                part.position,
                snapshot=True,
                last=number == len(cuts) - 1,
            )
            for number, cut in enumerate(cuts)
        ]
