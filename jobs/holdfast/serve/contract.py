"""What the parts of a query server know of each other.

`follow` and `cluster` provide it (stores that follow changelogs, members and forwarding), `query`
asks through it (pull and push queries), `http` and `console` put it before clients.

All of it lives in one asyncio loop.  Followers run in threads of their own; what is async here is
called on the loop and never blocks it for long.  Rows travel as the bytes that are stored;
`ServedTable.decode` makes columns of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa

from holdfast.config.settings import Settings
from holdfast.types.schema import BIGINT, Column
from holdfast.types.topology import Topology, WindowKind

__all__ = [
    "EVERY_WINDOW",
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
    """Which windows of a key are asked for: ms, both ends inclusive, None: open."""

    start_from: int | None = None
    start_to: int | None = None
    end_from: int | None = None
    end_to: int | None = None


EVERY_WINDOW = WindowBounds()


class ServedTable(Protocol):
    """A table that can be read: what it is called, its columns, and how its rows are stored.

    Its partitions are state partitions where its rows come from a changelog; they are topic
    partitions where they come from the topic itself (CREATE TABLE over a topic, joins, filters).
    Two values are equal when they are about the same table with the same statement.
    """

    @property
    def name(self) -> str:
        """Resolved name, as in the Topology."""

    @property
    def query_id(self) -> str | None:
        """The query that writes it; None of a table declared over a topic."""

    @property
    def topic(self) -> str:
        """What is followed: a changelog, or the table's own topic."""

    @property
    def partitions(self) -> int:
        """How many parts it has, numbered from 0."""

    @property
    def statement(self) -> str:
        """The text that made it; empty when there is none."""

    @property
    def key_columns(self) -> tuple[Column, ...]: ...

    @property
    def value_columns(self) -> tuple[Column, ...]: ...

    @property
    def window(self) -> WindowKind | None: ...

    @property
    def window_size_ms(self) -> int:
        """Of TUMBLING and HOPPING, else 0."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """What SELECT * gives: key columns, WINDOWSTART and WINDOWEND, value columns.

        ROWTIME (BIGINT) can be asked for as well.
        """

    @property
    def hides_rows(self) -> bool:
        """Whether a stored row may be none of the table's: by HAVING, or as it cannot be read."""

    def schema(self) -> pa.Schema:
        """Of `decode`: `columns`, ROWTIME, PRESENT."""

    def decode(self, keys: Sequence[bytes], rows: Sequence[bytes | None]) -> pa.Table:
        """Stored rows as columns, one row for each of `keys`, in their order.

        Args:
            keys: as `Rows` and `Change` have them, windows included.
            rows: None where the key was removed: only its key columns and bounds are filled.

        Raises:
            StoreCorrupted: the rows are not this table's.
        """

    def key_of(self, values: Sequence[Any]) -> bytes:
        """The stored key (without window) of one value per key column, Python values by type.

        Raises:
            Refused: a value is null or not of its column's type.
        """

    def partition_of(self, key: bytes) -> int | None:
        """Where the key lives; None: anywhere (a topic that others fill), ask all of them."""

    def key_ranges(self, low: Any, high: Any) -> list[tuple[bytes, bytes | None]] | None:
        """Stored ranges (start, end exclusive) that hold all keys with low <= key <= high.

        For `Reader.scan`; they may hold others, so the condition is checked again.  `low` and
        `high` may be None (open).  None: keys are not stored in order, scan everything.
        """


def windowed_columns(kind: WindowKind | None) -> tuple[Column, ...]:
    """The bounds' columns of a windowed table."""
    if kind is None:
        return ()
    return (Column(WINDOWSTART, BIGINT), Column(WINDOWEND, BIGINT))


@dataclass(frozen=True)
class Unserved:
    """A relation of the script that cannot be read, and why, in one sentence."""

    name: str
    kind: str  # STREAM or TABLE
    reason: str


class Catalog(Protocol):
    """Which tables are served; follows the script files, so ask it anew for each request."""

    def tables(self) -> Mapping[str, ServedTable]:
        """By resolved name."""

    def unserved(self) -> Mapping[str, Unserved]:
        """Everything else the statements name, streams included, by resolved name."""

    def topology(self) -> Topology:
        """All statements as planned: sources, queries, sinks."""

    def script(self) -> str:
        """Their text."""

    @property
    def version(self) -> int:
        """Grows with every change of the script."""


@dataclass(frozen=True)
class PartitionState:
    """How far one partition of a table is, on the server that answered.

    Attributes:
        position: changelog offset to apply next; every transaction before it is in, none in part.
        end: the changelog's end as last seen.
        stream_time_ms: highest event time in it, None before the first record or if not known.
        restoring: its first restore (or one after a loss) is not finished.
        server: id of the member that holds it.
        rows: in the store, and `bytes` on disk: as last measured, that of large stores a
            minute ago or more; -1 while restoring and before that.
        checked_ms: when `end` was last confirmed, wall clock.
        error: why it is not followed any more; what it has is still served.
        undecodable: records of a table's own topic that this server has passed over since it
            started, because they cannot be decoded; their keys keep the rows that they had.
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
    """Stored rows that were found; keys include their windows.  `states` by partition asked."""

    keys: list[bytes]
    rows: list[bytes]
    states: Mapping[int, PartitionState] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """Committed changes of one partition, whole transactions, in order.

    Attributes:
        keys: each at most once, in bytewise order (but those of a stream); with windows.
        rows: None: removed.
        old: the rows before, see `Reader.changes`; None as a whole when not known (after a resume
            from the changelog).
        position: resume from here to get what comes after.
        snapshot: the rows are the table's contents at `position`, in several parts; the part
            with `last` ends them.
        committed_ms: when the broker had the last of it, wall clock; 0 of a snapshot.
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
    """Rows of served tables, wherever they are: from this server's stores or another's.

    `max_lag`: in offsets.  With None any finished store answers; with a number every store
    answers that is no further behind, also one that is still restoring.
    `at_least`: partition -> position; only a store that has reached it answers.  After
    `await_positions` at least one has: give both the same, and what was written is read.

    All raise `Refused` (its subclass tells more) when no holder can answer within the limits, and
    `Retriable` when trying again soon may help (`StoreBehind`, `NoHolder`).
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
        """Rows of these keys (without window), windows in order; what is not there is left out."""

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
        """Rows with start <= key < end in key order, in parts, all of one moment of the partition.

        The first part comes even when it is empty: it has the state.
        """

    async def positions(self, table: ServedTable) -> Mapping[int, PartitionState]:
        """The best holder's state of each partition; partitions nobody holds are left out."""

    async def await_positions(
        self, table: ServedTable, positions: Mapping[int, int], timeout_s: float
    ) -> None:
        """Waits until the stores that answer are at these positions (partition -> offset).

        Raises:
            StoreBehind: not reached in time.
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
        """Committed changes, for ever; closes (aclose) to stop.

        Args:
            since: a `Change.position`: everything committed after it.  Where the changelog has
                been compacted since, changes that were overwritten are left out.
            snapshot: without `since`: first the contents, then every change after them, no gap
                and no double.  Neither: from now on.
            old: whether changes shall have what all their keys had before, which costs more than
                everything else; without, those that are removed have it.

        Raises:
            PositionLost: `since` lies before what the changelog can still tell.
        """


class MemberState(StrEnum):
    """What is known of a server."""

    STARTING = "STARTING"  # not all that it holds is restored
    READY = "READY"
    GONE = "GONE"  # does not answer


@dataclass(frozen=True)
class Holding:
    """One partition of a table on a server, for the console and for choosing a holder."""

    table: str
    partition: int
    state: PartitionState


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


class Cluster(Protocol):
    """The servers, seen from this one."""

    @property
    def me(self) -> str:
        """This server's id."""

    def members(self) -> Sequence[Member]:
        """All servers that should be there, this one included, by id."""

    def holders(self, table: ServedTable, partition: int) -> Sequence[Member]:
        """Who should hold it, best first: this server, then the ones that answer, by lag."""


@dataclass
class Result:
    """Rows of a query: its columns now, its rows as they come, where they stood at the end.

    `schema` of the batches is that of `columns`, in order.  `states` (by partition) is complete
    when `batches` has ended; `token` resumes a push query after what has been read so far.
    """

    columns: tuple[Column, ...]
    batches: AsyncIterator[pa.RecordBatch]
    states: dict[int, PartitionState] = field(default_factory=dict)
    token: str = ""
    query_id: str = ""


class InternalApp(Protocol):
    """What peers ask of each other: an ASGI app for the paths under `/internal/`.

    The HTTP layer mounts it and lets in only who has the cluster's token.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


@dataclass(frozen=True)
class Serving:
    """Everything a server is made of; `holdfast serve` makes it and gives it to the HTTP layer.

    `holdfast.serve.http.server.run(serving, ...)` is what runs it until it is stopped.
    """

    settings: Settings
    catalog: Catalog
    reader: Reader
    cluster: Cluster
    internal: InternalApp
    started_ms: int = 0
