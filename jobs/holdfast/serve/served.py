"""A table that can be read, as the parts of a query server see it; part of the contract."""

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
