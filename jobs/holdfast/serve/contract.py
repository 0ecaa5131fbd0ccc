"""The interfaces between the parts of a query server.

`follow` and `cluster` implement them (stores that follow changelogs, members and forwarding),
`query` uses them (pull and push queries), `http` and `console` expose them to clients.

Everything runs in one asyncio loop, except followers, which have their own threads; async methods
are called on the loop and never block it for long.  Rows travel as the bytes that are stored;
`ServedTable.decode` turns them into columns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa

from holdfast.config.settings import Settings
from holdfast.types.columns.schema import BIGINT, Column
from holdfast.types.statements.topology import Topology, WindowKind

__all__ = [
    "EVERY_WINDOW",
    "GENERATION",
    "PRESENT",
    "ROWTIME",
    "WINDOWEND",
    "WINDOWSTART",
    "Catalog",
    "Change",
    "Cluster",
    "Holding",
    "InternalApp",
    "Member",
    "MemberState",
    "PartitionState",
    "Reader",
    "Result",
    "Rows",
    "ServedTable",
    "Serving",
    "Unserved",
    "WindowBounds",
    "windowed_columns",
]

WINDOWSTART, WINDOWEND, ROWTIME = "WINDOWSTART", "WINDOWEND", "ROWTIME"
# BOOLEAN, last column of `ServedTable.decode`: whether the table has this row.
PRESENT = "__present"


@dataclass(frozen=True)
class WindowBounds:
    """The requested windows of a key: bounds in ms, inclusive, None: open."""

    start_from: int | None = None
    start_to: int | None = None
    end_from: int | None = None
    end_to: int | None = None


EVERY_WINDOW = WindowBounds()


GENERATION = "\0"
"""Between a table's name and the generation of its changelog, see `ServedTable.held_as`."""


class ServedTable(Protocol):
    """A readable table: its name, its columns, and how its rows are stored.

    Its partitions are state partitions where its rows come from a changelog; they are topic
    partitions where they come from the topic itself (CREATE TABLE over a topic, joins, filters).
    Two values are equal when they are about the same table with the same statement.
    """

    @property
    def name(self) -> str:
        """The resolved name, as in the Topology."""

    @property
    def held_as(self) -> str:
        """The name under which servers hold its partitions: a rescale gives it another one."""

    @property
    def query_id(self) -> str | None:
        """The query that writes the table; None for a table declared over a topic."""

    @property
    def topic(self) -> str:
        """The followed topic: a changelog, or the table's own topic."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""

    @property
    def statement(self) -> str:
        """The text of the table's statement; empty if there is none."""

    @property
    def key_columns(self) -> tuple[Column, ...]: ...

    @property
    def value_columns(self) -> tuple[Column, ...]: ...

    @property
    def window(self) -> WindowKind | None: ...

    @property
    def window_size_ms(self) -> int:
        """The window size for TUMBLING and HOPPING, else 0."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of SELECT *: key columns, WINDOWSTART and WINDOWEND, value columns.

        ROWTIME (BIGINT) can be selected as well.
        """

    @property
    def hides_rows(self) -> bool:
        """Whether stored rows may not be in the table, because of HAVING or as they are
        unreadable.
        """

    def schema(self) -> pa.Schema:
        """The schema of `decode`: `columns`, ROWTIME, PRESENT."""

    def decode(self, keys: Sequence[bytes], rows: Sequence[bytes | None]) -> pa.Table:
        """Stored rows as columns, one row for each of `keys`, in their order.

        Args:
            keys: as in `Rows` and `Change`, windows included.
            rows: None for a removed key, which gets only its key columns and window bounds.

        Raises:
            StoreCorrupted: the rows are not this table's.
        """

    def key_of(self, values: Sequence[Any]) -> bytes:
        """The stored key (without window) for one Python value per key column.

        Raises:
            Refused: a value is null or not of its column's type.
        """

    def partition_of(self, key: bytes) -> int | None:
        """The key's partition; None if it may be any (a topic that others write): ask all of
        them.
        """

    def key_ranges(self, low: Any, high: Any) -> list[tuple[bytes, bytes | None]] | None:
        """Stored ranges (start, end exclusive) that hold all keys with low <= key <= high.

        For `Reader.scan`; the ranges may hold other keys, so check the condition again.  `low` and
        `high` may be None (open).  None: keys are not stored in order, scan everything.
        """


def windowed_columns(kind: WindowKind | None) -> tuple[Column, ...]:
    """The columns of window bounds."""
    if kind is None:
        return ()
    return (Column(WINDOWSTART, BIGINT), Column(WINDOWEND, BIGINT))


@dataclass(frozen=True)
class Unserved:
    """A stream or table of the script that cannot be read, and the reason in one sentence."""

    name: str
    kind: str  # STREAM or TABLE
    reason: str


class Catalog(Protocol):
    """The served tables; it follows the script files, so query it anew for each request."""

    def tables(self) -> Mapping[str, ServedTable]:
        """Served tables by resolved name."""

    def unserved(self) -> Mapping[str, Unserved]:
        """All other relations of the statements, streams included, by resolved name."""

    def topology(self) -> Topology:
        """All statements as planned: sources, queries, sinks."""

    def script(self) -> str:
        """The text of all statements."""

    @property
    def version(self) -> int:
        """A number that grows with every change of the script."""


@dataclass(frozen=True)
class PartitionState:
    """How far one partition of a table is, on the server that answered.

    Attributes:
        position: next changelog offset to apply; all transactions before it are applied in full.
        end: the changelog's end as last seen.
        stream_time_ms: highest event time in the store, None if it is empty or this is unknown.
        restoring: the first restore, or one after a loss, is not finished.
        server: id of the member that holds the partition.
        rows: rows in the store, and `bytes` on disk, as last measured (large stores are measured
            less than once a minute); -1 until the restore is finished.
        checked_ms: when `end` was last confirmed, by this server's wall clock.
        error: why the changelog is no longer followed; the rows so far are still served.
        undecodable: records of a table's own topic that this server has skipped since it started,
            because they cannot be decoded; their keys keep their previous rows.
    """

    partition: int
    position: int
    end: int
    stream_time_ms: int | None = None
    restoring: bool = False
    server: str = ""
    rows: int = -1
    bytes: int = 0
    checked_ms: int = 0
    error: str | None = None
    undecodable: int = 0

    @property
    def lag(self) -> int:
        """Changelog offsets not applied yet."""
        return max(0, self.end - self.position)


@dataclass(frozen=True)
class Rows:
    """Stored rows that were found; keys include windows.  `states`: by requested partition."""

    keys: list[bytes]
    rows: list[bytes]
    states: Mapping[int, PartitionState] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """Committed changes of one partition, whole transactions, in order.

    Attributes:
        keys: with windows, each at most once, in bytewise order (except a stream's, which are in
            log order).
        rows: by key; None: removed.
        old: the previous rows, see `Reader.changes`; None altogether when they are unknown (after a
            resume from the changelog).
        position: resume from here to receive the next changes.
        snapshot: the rows are the table's contents at `position`, in several parts; the part
            with `last` ends them.
        committed_ms: broker time of the last record, wall clock; 0 for a snapshot.
    """

    partition: int
    keys: list[bytes]
    rows: list[bytes | None]
    position: int
    old: list[bytes | None] | None = None
    snapshot: bool = False
    last: bool = False
    committed_ms: int = 0


class Reader(Protocol):
    """Reads rows of served tables from this server's stores or another's.

    `max_lag`: in offsets.  With None, any restored store answers; with a number, every store within
        that lag answers, even one that is still restoring.
    `at_least`: partition -> position; only a store that has reached it answers.  After
        `await_positions` with the same positions at least one store has: this gives
        read-your-writes.

    All methods raise `Refused` (or a subclass) when no holder can answer within the limits, and
    `Retriable` when a retry may help (`StoreBehind`, `NoHolder`).
    """

    async def get(
        self,
        table: ServedTable,
        keys: Sequence[bytes],
        within: WindowBounds = EVERY_WINDOW,
        *,
        max_lag: int | None = None,
        at_least: Mapping[int, int] | None = None,
    ) -> Rows:
        """Rows of these keys (without window), windows in order; missing keys are left out."""

    def scan(
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
        """Rows with start <= key < end in key order, in parts, all from one snapshot of the
        partition.

        There is always a first part, even if it is empty: it carries the state.
        """

    async def positions(self, table: ServedTable) -> Mapping[int, PartitionState]:
        """The best holder's state of each partition; partitions without a holder are left out."""

    async def await_positions(
        self, table: ServedTable, positions: Mapping[int, int], timeout_s: float
    ) -> None:
        """Wait until the stores that answer reach these positions (partition -> offset).

        Raises:
            StoreBehind: they were not reached in time.
        """

    def changes(
        self,
        table: ServedTable,
        partition: int,
        *,
        since: int | None = None,
        snapshot: bool = False,
        old: bool = False,
    ) -> AsyncIterator[Change]:
        """Committed changes, without end; close the iterator (aclose) to stop.

        Args:
            since: a `Change.position`: gives everything committed after it.  Where the changelog
                has been compacted since, overwritten changes are left out.
            snapshot: without `since`: first the contents, then every change after them, without gap
                or duplicate.  With neither: changes from now on.
            old: whether changes carry the previous rows of all keys, which is the most expensive
                part; without it, only removals do.

        Raises:
            PositionLost: the changelog no longer reaches back to `since`.
        """


class MemberState(StrEnum):
    """The state of a server."""

    STARTING = "STARTING"  # some of its stores are not restored yet
    READY = "READY"
    GONE = "GONE"  # does not answer


@dataclass(frozen=True)
class Holding:
    """One partition of a table on a server, for the console and for choosing a holder."""

    held_as: str
    partition: int
    state: PartitionState

    @property
    def table(self) -> str:
        """The table's name; see `ServedTable.held_as`."""
        return self.held_as.partition(GENERATION)[0]

    @property
    def generation(self) -> int:
        """The generation of the changelog that it follows."""
        return int(self.held_as.partition(GENERATION)[2] or 0)


@dataclass(frozen=True)
class Member:
    """One query server.

    Attributes:
        server_id: `0`, `1`, …: the ordinal.
        address: `http(s)://host:port` where peers reach it.
        seen_ms: when it last answered, wall clock; 0: never.
    """

    server_id: str
    address: str
    state: MemberState
    seen_ms: int
    holdings: tuple[Holding, ...] = ()

    @property
    def shown(self) -> list[Holding]:
        """The holdings of one generation of each table: the first one, while there are two."""
        first: dict[str, int] = {}
        for held in self.holdings:
            first[held.table] = min(held.generation, first.get(held.table, held.generation))
        return [held for held in self.holdings if held.generation == first[held.table]]


class Cluster(Protocol):
    """The servers, seen from this one."""

    @property
    def me(self) -> str:
        """This server's id."""

    def members(self) -> Sequence[Member]:
        """All servers that should be there, this one included, by id."""

    def holders(self, table: ServedTable, partition: int) -> Sequence[Member]:
        """The partition's holders, best first: this server, then those that answer, by lag."""


@dataclass
class Result:
    """A query's result: its columns at once, its rows as they come, the positions at the end.

    `schema` of the batches is that of `columns`, in order.  `states` (by partition) is complete
    when `batches` has ended; `token` resumes a push query after what has been read so far.
    """

    columns: tuple[Column, ...]
    batches: AsyncIterator[pa.RecordBatch]
    states: dict[int, PartitionState] = field(default_factory=dict)
    token: str = ""
    query_id: str = ""


class InternalApp(Protocol):
    """The ASGI app for requests between servers, for the paths under `/internal/`.

    The HTTP layer mounts it and admits only requests with the cluster's token.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


@dataclass(frozen=True)
class Serving:
    """All parts of a server; `holdfast serve` creates it and passes it to the HTTP layer.

    `holdfast.serve.http.server.run(serving, ...)` runs it until it is stopped.
    """

    settings: Settings
    catalog: Catalog
    reader: Reader
    cluster: Cluster
    internal: InternalApp
    started_ms: int = 0
