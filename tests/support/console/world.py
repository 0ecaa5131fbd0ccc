"""A query server in memory for the console's tests: the contract, kept by dictionaries.

Two servers hold every partition of the tables of a small shop; server 1 may restore, or be gone.
`World.put` commits a change, which readers and live pages see at once.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import orjson
import pyarrow as pa

from holdfast.config.settings import Settings
from holdfast.errors import InvalidStatement, NotAllowed
from holdfast.serve.contract import (
    EVERY_WINDOW,
    PRESENT,
    ROWTIME,
    Change,
    Holding,
    Member,
    MemberState,
    PartitionState,
    Rows,
    ServedTable,
    Serving,
    Unserved,
    WindowBounds,
    windowed_columns,
)
from holdfast.serve.queries import Answer, Ask
from holdfast.sql.plan.topology import compile_text
from holdfast.types.columns.schema import BIGINT, BOOLEAN, Column
from holdfast.types.ids import changelog_topic
from holdfast.types.statements.topology import Query, Topology, WindowKind

T = TypeVar("T")
SCRIPT = """
SET 'state.partitions' = '4';
CREATE STREAM orders (customer VARCHAR, product VARCHAR, amount BIGINT, ts BIGINT)
  WITH (KAFKA_TOPIC = 'shop_orders', VALUE_FORMAT = 'JSON', PARTITIONS = 4, TIMESTAMP = 'ts');
CREATE TABLE customers (customer VARCHAR PRIMARY KEY, city VARCHAR)
  WITH (KAFKA_TOPIC = 'shop_customers', VALUE_FORMAT = 'JSON', PARTITIONS = 2);
CREATE TABLE per_customer AS
  SELECT customer, COUNT(*) AS orders, SUM(amount) AS total
  FROM orders WHERE amount > 0 GROUP BY customer EMIT CHANGES;
CREATE TABLE per_product_minute AS
  SELECT product, COUNT(*) AS orders, SUM(amount) AS total FROM orders
  WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 HOUR)
  GROUP BY product HAVING COUNT(*) > 1 EMIT CHANGES;
CREATE STREAM placed AS
  SELECT o.customer AS customer, o.amount AS amount, c.city AS city
  FROM orders o LEFT JOIN customers c ON o.customer = c.customer EMIT CHANGES;
CREATE TABLE per_city AS
  SELECT city, COUNT(*) AS orders, SUM(amount) AS total FROM placed GROUP BY city EMIT CHANGES;
CREATE STREAM large_orders AS SELECT customer, amount FROM orders WHERE amount > 900;
"""
JOB = "shop"


@dataclass(frozen=True)
class MemoryTable:
    """Keys are JSON lists of the key's values, then of the window's bounds; rows of values."""

    name: str
    query: Query
    partitions: int = 4

    @property
    def held_as(self) -> str:
        return self.name

    @property
    def query_id(self) -> str:
        return self.query.id

    @property
    def topic(self) -> str:
        return changelog_topic(JOB, self.query.id)

    @property
    def statement(self) -> str:
        return self.query.statement

    @property
    def key_columns(self) -> tuple[Column, ...]:
        return self.query.sink.key_columns

    @property
    def value_columns(self) -> tuple[Column, ...]:
        return self.query.sink.value_columns

    @property
    def window(self) -> WindowKind | None:
        return self.query.sink.window

    @property
    def window_size_ms(self) -> int:
        return self.query.sink.window_size_ms

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.key_columns, *windowed_columns(self.window), *self.value_columns)

    @property
    def hides_rows(self) -> bool:
        return True

    def schema(self) -> pa.Schema:
        extra = (Column(ROWTIME, BIGINT), Column(PRESENT, BOOLEAN))
        return pa.schema([(c.name, c.type.arrow()) for c in (*self.columns, *extra)])

    def decode(self, keys: Sequence[bytes], rows: Sequence[bytes | None]) -> pa.Table:
        width = len(self.value_columns) + 1
        values = [
            [*orjson.loads(key), *(orjson.loads(row) if row else [None] * width), row is not None]
            for key, row in zip(keys, rows, strict=True)
        ]
        names = self.schema().names
        return pa.Table.from_pylist(
            [dict(zip(names, row, strict=True)) for row in values], self.schema()
        )

    def key_of(self, values: Sequence[Any]) -> bytes:
        return orjson.dumps(list(values))

    def partition_of(self, key: bytes) -> int:
        return crc32(orjson.dumps(orjson.loads(key)[: len(self.key_columns)])) % self.partitions

    def key_ranges(self, low: Any, high: Any) -> list[tuple[bytes, bytes | None]] | None:
        if self.window is not None:
            return None
        low_key = orjson.dumps([low])[:-2] if low else b""
        return [(low_key, orjson.dumps([high])[:-2] if high else None)]


@dataclass
class World:
    """The server's contract in one: catalog, reader, cluster and queries."""

    script: str = SCRIPT
    stores: dict[tuple[str, int], dict[bytes, bytes]] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    listeners: list[tuple[str, int, asyncio.Queue[Change]]] = field(default_factory=list)
    other: MemberState = MemberState.READY
    other_behind: int = 0
    checked_ms: int = 0
    asked: list[Ask] = field(default_factory=list)
    version = 1
    me = "0"

    def __post_init__(self) -> None:
        self.planned: Topology = compile_text(self.script)
        self.served = {
            q.sink.name: MemoryTable(q.sink.name, q)
            for q in self.planned.queries
            if q.sink.kind == "TABLE"
        }

    # -- what tests do -----------------------------------------------------------------------

    def put(self, name: str, key: Sequence[Any], row: Sequence[Any] | None) -> None:
        """One committed change; `row` are the value columns, None removes the row."""
        table = self.served[name]
        stored = orjson.dumps(list(key))
        place = name, table.partition_of(stored)
        store = self.stores.setdefault(place, {})
        now = int(time.time() * 1000)
        data = None if row is None else orjson.dumps([*row, now])
        if data is None:
            store.pop(stored, None)
        else:
            store[stored] = data
        self.ends[place] = self.ends.get(place, 0) + 2  # the record and its transaction's marker
        change = Change(place[1], [stored], [data], self.ends[place], committed_ms=now)
        for listens, partition, queue in self.listeners:
            if (listens, partition) == place:
                queue.put_nowait(change)

    def serving(self, home: Path, brokers: str = "localhost:9092") -> Serving:
        """The parts of a server that the console needs."""
        settings = Settings(application_id=JOB, home=str(home), bootstrap_servers=brokers)
        started = int(time.time() * 1000) - 3_600_000
        return Serving(settings, _Catalog(self), _Reader(self), self, _nobody, started)

    def state(self, name: str, partition: int, behind: int = 0) -> PartitionState:
        place = name, partition
        rows, end = len(self.stores.get(place, {})), self.ends.get(place, 0)
        position = max(0, end - behind)
        return PartitionState(
            partition,
            position,
            end,
            None,
            behind > 0,
            "0",
            rows,
            rows * 120 + 4096,
            self.checked_ms,
        )

    # -- Cluster -----------------------------------------------------------------------------

    def members(self) -> Sequence[Member]:
        now = int(time.time() * 1000)
        places = [(t.name, p) for t in self.served.values() for p in range(t.partitions)]
        mine = tuple(Holding(t, p, self.state(t, p)) for t, p in places)
        theirs = tuple(
            Holding(t, p, replace(self.state(t, p, self.other_behind), server="1"))
            for t, p in places
        )
        return (
            Member("0", "http://127.0.0.1:8088", MemberState.READY, now, mine),
            Member("1", "http://127.0.0.1:8089", self.other, now, theirs),
        )

    def holders(self, table: ServedTable, partition: int) -> Sequence[Member]:
        return self.members()

    # -- Queries -----------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Answer:
        self.asked.append(ask)
        words = ask.sql.upper().replace(";", " ").split()
        name = words[words.index("FROM") + 1] if "FROM" in words else ""
        table = self.served.get(name)
        if table is None:
            raise InvalidStatement(f"There is no table {name or ask.sql}.", action="see the list")
        if not ask.may_read(name):
            raise NotAllowed(f"You may not read {name}.")
        push = "EMIT" in words
        batches = self._pushed(table) if push else self._pulled(table)
        states = {p: self.state(name, p) for p in range(table.partitions)}
        return Answer(table.columns, batches, states, push=push, tables=(name,))

    async def work(self, text: str, function: Callable[..., T], *args: object) -> T:
        return function(*args)

    async def _pulled(self, table: MemoryTable) -> AsyncIterator[pa.RecordBatch]:
        for partition in range(table.partitions):
            store = self.stores.get((table.name, partition), {})
            data = table.decode(list(store), list(store.values()))
            yield data.select([c.name for c in table.columns]).combine_chunks().to_batches()[0]

    async def _pushed(self, table: MemoryTable) -> AsyncIterator[pa.RecordBatch]:
        queue: asyncio.Queue[Change] = asyncio.Queue()
        listens = [(table.name, p, queue) for p in range(table.partitions)]
        self.listeners.extend(listens)
        try:
            while True:
                change = await queue.get()
                data = table.decode(change.keys, change.rows)
                yield data.select([c.name for c in table.columns]).combine_chunks().to_batches()[0]
        finally:
            for each in listens:
                self.listeners.remove(each)


@dataclass(frozen=True)
class _Catalog:
    world: World

    def tables(self) -> Mapping[str, ServedTable]:
        return self.world.served

    def unserved(self) -> Mapping[str, Unserved]:
        topology = self.world.planned
        others = [*topology.sources, *(q.sink for q in topology.queries if q.sink.kind == "STREAM")]
        return {
            s.name: Unserved(s.name, s.kind, f"{s.name} is a {s.kind}: it has no rows by key.")
            for s in others
        }

    def topology(self) -> Topology:
        return self.world.planned

    def script(self) -> str:
        return self.world.script

    @property
    def version(self) -> int:
        return self.world.version


@dataclass(frozen=True)
class _Reader:
    world: World

    async def get(
        self,
        table: ServedTable,
        keys: Sequence[bytes],
        within: WindowBounds = EVERY_WINDOW,
        *,
        max_lag: int | None = None,
        at_least: Mapping[int, int] | None = None,
    ) -> Rows:
        found = Rows([], [])
        for key in keys:
            store = self.world.stores.get((table.name, table.partition_of(key) or 0), {})
            for stored in sorted(store, key=orjson.loads):
                if stored.startswith(key[:-1]) and stored[len(key) - 1 : len(key)] in (b",", b"]"):
                    found.keys.append(stored)
                    found.rows.append(store[stored])
        return found

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
        store = self.world.stores.get((table.name, partition), {})
        keys = sorted(store)
        keys = keys[bisect_left(keys, start) : None if end is None else bisect_left(keys, end)]
        keys = keys[:limit]
        state = {partition: self.world.state(table.name, partition)}
        yield Rows(keys, [store[key] for key in keys], state)

    async def positions(self, table: ServedTable) -> Mapping[int, PartitionState]:
        return {p: self.world.state(table.name, p) for p in range(table.partitions)}

    async def await_positions(
        self, table: ServedTable, positions: Mapping[int, int], timeout_s: float
    ) -> None:
        """Everything is always level here."""

    async def changes(
        self,
        table: ServedTable,
        partition: int,
        *,
        since: int | None = None,
        snapshot: bool = False,
        old: bool = False,
    ) -> AsyncIterator[Change]:
        queue: asyncio.Queue[Change] = asyncio.Queue()
        listens = table.name, partition, queue
        self.world.listeners.append(listens)
        try:
            while True:
                yield await queue.get()
        finally:
            self.world.listeners.remove(listens)


async def _nobody(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("no peer asks")
