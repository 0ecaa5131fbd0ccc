"""The interface of a readable table; part of the contract between a server's parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from holdfast.types.schema import BIGINT, Column
from holdfast.types.topology import WindowKind

__all__ = [
    "EVERY_WINDOW",
    "PRESENT",
    "ROWTIME",
    "WINDOWEND",
    "WINDOWSTART",
    "ServedTable",
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
