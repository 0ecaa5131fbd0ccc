"""What the tables of a server have in common: names, columns, windows of stored keys."""

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
from holdfast.types.schema import Column
from holdfast.types.topology import WindowKind

__all__ = ["StoredTable", "finished"]


@dataclass(frozen=True)
class StoredTable(ABC):
    """A `ServedTable` with what its followers and readers must know of its stores.

    Attributes:
        application_id: whose volume folder its stores are in.
        store_name: their folder; unique in the job.
        statement, query_id, topic, partitions: see `ServedTable`.
        fingerprint: of the statement whose rows these are; None: any.
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
        """Whether what is followed has commit markers, which end its transactions."""

    def readable(self, chunk: Chunk) -> tuple[Chunk, list[BadRecord]]:
        """The records of the topic that can be decoded, and the others: these change nothing.

        As in Kafka Streams a key keeps the row that it had before an undecodable record.
        """
        return chunk, []

    @property
    @abstractmethod
    def rows_of(self) -> RowsOf:
        """Takes the rows, and the last commit marker, from readable records of the topic."""

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
        """The stored range (start, end exclusive) with all windows of a key that are asked for."""

    @abstractmethod
    def split(self, stored: bytes) -> tuple[bytes, int, int]:
        """(key without window, window start, window end) of a stored key of a windowed table.

        Raises:
            ValueError: it is too short to have a window.
        """

    def is_within(self, stored: bytes, key: bytes, within: WindowBounds) -> bool:
        """Whether a stored key is a window of `key` that is asked for."""
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
        keys: key columns and bounds.
        present: booleans, as numpy has them.
    """
    there = pa.array(present, pa.bool_())
    if pc.all(there).as_py() is False:
        values = [pc.if_else(there, v, pa.scalar(None, v.type)) for v in values]
        times = pc.if_else(there, times, pa.scalar(None, pa.int64()))
    return pa.Table.from_arrays([*keys, *values, times, there], schema=table.schema())
