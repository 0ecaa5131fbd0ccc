"""Tables whose rows are the records of their topic: declared ones, joins, filters, final results.

If they have state, it does not hold their rows; the compacted topic does.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.ingest.records import BadRecord, RecordDecoder
from holdfast.serve.contract import WindowBounds
from holdfast.serve.tables.base import StoredTable, finished
from holdfast.serve.tables.changelog import window_range
from holdfast.serve.tables.literals import key_columns_of, ordered_ranges
from holdfast.state.restore import LastRows, RowsOf
from holdfast.tasks.evaluate.keys import encode_keys, split_windowed
from holdfast.transport.partitioner import murmur2_partition
from holdfast.transport.reader import Chunk
from holdfast.types.columns.schema import Base
from holdfast.types.columns.schemas import DataSchema, Schemas
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import (
    OFFSET,
    TIMESTAMP,
    TOMBSTONE,
    WINDOW_END,
    WINDOW_START,
    Format,
    Source,
    WindowKind,
)

__all__ = ["TopicTable"]

_TIME = struct.Struct(">q")
_IN_ORDER = frozenset({Base.STRING, Base.INTEGER, Base.BIGINT})


@dataclass(frozen=True)
class TopicTable(StoredTable):
    """A table over a topic: a stored row is a record's timestamp (8 bytes) and value, by its key.

    `source`: the formats; `ours`: only Holdfast writes the topic, so its partitioner applies;
    `schemas`: the registry of formats that have one.
    """

    source: Source
    ours: bool
    schemas: Schemas | None = field(default=None, repr=False, compare=False)
    _decoder: RecordDecoder = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        bounds = (WINDOW_START, WINDOW_END) if self.window is not None else ()
        wanted = (*(c.name for c in self.source.columns), *bounds)
        decoder = RecordDecoder(IngestOptions(self.source, {}, wanted), self.schemas)
        object.__setattr__(self, "_decoder", decoder)

    @property
    def hides_rows(self) -> bool:
        return True

    @property
    def has_markers(self) -> bool:
        return False

    def readable(self, chunk: Chunk) -> tuple[Chunk, list[BadRecord]]:
        if not len(chunk):
            return chunk, []
        _, bad = self._decoder.decode(chunk, 0)
        return (_without(chunk, {b.offset for b in bad}) if bad else chunk), bad

    @property
    def rows_of(self) -> RowsOf:
        return _topic_rows

    def decode(self, keys: Sequence[bytes], rows: Sequence[bytes | None]) -> pa.Table:
        count = len(keys)
        chunk = Chunk(
            keys=list(keys),
            values=[None if row is None else row[_TIME.size :] for row in rows],
            offsets=list(range(count)),
            timestamps=[0 if row is None else _TIME.unpack_from(row)[0] for row in rows],
            position=count,
        )
        batch, bad = self._decoder.decode(chunk, 0)
        present = np.zeros(count, np.bool_)
        good = batch[OFFSET].to_numpy()
        present[good] = ~batch[TOMBSTONE].to_numpy(zero_copy_only=False)
        columns = [batch[c.name] for c in self.key_columns]
        if self.window is not None:
            columns += [batch[WINDOW_START], batch[WINDOW_END]]
        columns += [batch[c.name] for c in self.value_columns] + [batch[TIMESTAMP]]
        if bad:
            at = np.full(count, -1, np.int64)
            at[good] = np.arange(len(good))
            places = pa.array(at, mask=at < 0)
            columns = [column.take(places) for column in columns]
        width = len(columns) - 1 - len(self.value_columns)
        return finished(self, columns[:width], columns[width:-1], columns[-1], present)

    def key_of(self, values: Sequence[Any]) -> bytes:
        source, arrays = self.source, key_columns_of(self.key_columns, values)
        form, delimiter = source.key_format, source.key_delimiter
        found = encode_keys(
            source.key_columns,
            arrays,
            form,
            delimiter,
            nullable=source.key_nullable,
            schema=self._key_schema,
        )
        return found[0] or b""

    @cached_property
    def _key_schema(self) -> DataSchema | None:
        """The schema that the job writes keys with; its start registered it, or refused another."""
        data = self.source.key_schema
        if data is None or data.id is not None or self.schemas is None:
            return data
        return replace(data, id=self.schemas.register(data.subject, data.schema))

    def partition_of(self, key: bytes) -> int | None:
        # The partition of a windowed key depends on its window, too.
        known = self.ours and self.window is None
        return murmur2_partition(key, self.partitions) if known else None

    def key_ranges(self, low: Any, high: Any) -> list[tuple[bytes, bytes | None]] | None:
        first = self.key_columns[0].type.base
        if self.source.key_format is not Format.KAFKA or first not in _IN_ORDER:
            return None
        return ordered_ranges(self.key_columns, low, high, windowed=self.window is not None)

    def window_range(self, key: bytes, within: WindowBounds) -> tuple[bytes, bytes]:
        if self.window is not WindowKind.SESSION:
            return window_range(key, within, self.window_size_ms)
        # Session keys store the window's end before its start.
        by_end = WindowBounds(start_from=within.end_from, start_to=within.end_to)
        start, end = window_range(key, by_end, 0)
        return start, end + b"\xff" * _TIME.size

    def split(self, stored: bytes) -> tuple[bytes, int, int]:
        return split_windowed(stored, self.window or WindowKind.TUMBLING, self.window_size_ms)


def _without(chunk: Chunk, offsets: set[int]) -> Chunk:
    kept = [i for i, offset in enumerate(chunk.offsets) if offset not in offsets]
    return Chunk(
        [chunk.keys[i] for i in kept],
        [chunk.values[i] for i in kept],
        [chunk.offsets[i] for i in kept],
        [chunk.timestamps[i] for i in kept],
        chunk.position,
    )


def _topic_rows(chunk: Chunk) -> LastRows:
    """The last row of each key; records without a key are ignored."""
    columns = zip(chunk.keys, chunk.values, chunk.timestamps, strict=True)
    rows = {
        key: None if value is None else _TIME.pack(time) + value
        for key, value, time in columns
        if key is not None
    }
    return LastRows(rows, None)
