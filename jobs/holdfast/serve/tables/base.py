"""Base of a server's tables: names, columns, windows of stored keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.ingest.records import BadRecord
from holdfast.serve.contract import PRESENT, ROWTIME, WindowBounds, windowed_columns
from holdfast.state.restore import RowsOf
from holdfast.transport.reader import Chunk
from holdfast.types.columns.schema import Column
from holdfast.types.statements.topology import WindowKind

__all__ = ["StoredTable", "finished"]


@dataclass(frozen=True)
class StoredTable(ABC):
    """A `ServedTable` with the details of its stores that followers and readers need.

    Attributes:
        application_id: the volume's folder of the stores.
        store_name: the stores' folder below it; unique in the job.
        statement, query_id, topic, partitions: see `ServedTable`.
        fingerprint: the fingerprint that the rows must have; None: any.
    """

    name: str
    application_id: str
    store_name: str
    statement: str
    query_id: str | None
    topic: str
    partitions: int
    key_columns: tuple[Column, ...]
    value_columns: tuple[Column, ...]
    window: WindowKind | None
    window_size_ms: int
    fingerprint: str | None

    @property
    def held_as(self) -> str:
        """See `ServedTable`."""
        return self.name

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.key_columns, *windowed_columns(self.window), *self.value_columns)

    def schema(self) -> pa.Schema:
        fields = [pa.field(c.name, c.type.arrow()) for c in self.columns]
        return pa.schema([*fields, pa.field(ROWTIME, pa.int64()), pa.field(PRESENT, pa.bool_())])

    @property
    @abstractmethod
    def hides_rows(self) -> bool:
        """See `ServedTable`."""

    @property
    @abstractmethod
    def has_markers(self) -> bool:
        """Whether the followed topic has commit markers, which end its transactions."""

    def readable(self, chunk: Chunk) -> tuple[Chunk, list[BadRecord]]:
        """The decodable records of a chunk, and the others, which change nothing.

        As in Kafka Streams, a key keeps its previous row at an undecodable record.
        """
        return chunk, []

    @property
    @abstractmethod
    def rows_of(self) -> RowsOf:
        """The function that extracts rows and the last commit marker from readable records."""

    @abstractmethod
    def decode(self, keys: Sequence[bytes], rows: Sequence[bytes | None]) -> pa.Table:
        """See `ServedTable`."""

    @abstractmethod
    def key_of(self, values: Sequence[Any]) -> bytes:
        """See `ServedTable`."""

    @abstractmethod
    def partition_of(self, key: bytes) -> int | None:
        """See `ServedTable`."""

    @abstractmethod
    def key_ranges(self, low: Any, high: Any) -> list[tuple[bytes, bytes | None]] | None:
        """See `ServedTable`."""

    @abstractmethod
    def window_range(self, key: bytes, within: WindowBounds) -> tuple[bytes, bytes]:
        """The stored range (start, end exclusive) of the requested windows of a key."""

    @abstractmethod
    def split(self, stored: bytes) -> tuple[bytes, int, int]:
        """(key without window, window start, window end) of a stored key of a windowed table.

        Raises:
            ValueError: the key is too short to have a window.
        """

    def is_within(self, stored: bytes, key: bytes, within: WindowBounds) -> bool:
        """Whether a stored key is one of the requested windows of `key`."""
        try:
            plain, start, end = self.split(stored)
        except ValueError:
            return False
        return (
            plain == key
            and _between(start, within.start_from, within.start_to)
            and _between(end, within.end_from, within.end_to)
        )


def _between(time: int, low: int | None, high: int | None) -> bool:
    return (low is None or time >= low) and (high is None or time <= high)


def finished(
    table: StoredTable, keys: list[pa.Array], values: list[pa.Array], times: pa.Array, present: Any
) -> pa.Table:
    """The columns of `decode`; values and times are null where there is no row.

    Args:
        keys: key columns and window bounds.
        present: booleans in numpy.
    """
    there = pa.array(present, pa.bool_())
    if pc.all(there).as_py() is False:
        values = [pc.if_else(there, v, pa.scalar(None, v.type)) for v in values]
        times = pc.if_else(there, times, pa.scalar(None, pa.int64()))
    return pa.Table.from_arrays([*keys, *values, times, there], schema=table.schema())
