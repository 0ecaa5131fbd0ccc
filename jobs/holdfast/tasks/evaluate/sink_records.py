"""A sink's records from columns: formats, windows and timestamps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from holdfast.tasks.evaluate.event_time import EventTime
from holdfast.tasks.evaluate.keys import encode_keys, session_key, window_key
from holdfast.tasks.evaluate.values import encode_values
from holdfast.types.statements.topology import Sink, WindowKind

__all__ = ["SinkRecords"]


class SinkRecords:
    """Encodes the records of one sink; every method takes columns and returns one value per row."""

    def __init__(self, sink: Sink) -> None:
        """Raises `InvalidStatement`: the TIMESTAMP column does not exist, or holds no time."""
        self._sink = sink
        columns = sink.key_columns + sink.value_columns
        self._times = EventTime(sink.name, columns, sink.timestamp)
        stamp = self._times.column
        self._stamped = columns.index(stamp) if stamp is not None else None

    @property
    def key_width(self) -> int:
        """How many key columns the sink has."""
        return len(self._sink.key_columns)

    def keys(self, arrays: Sequence[pa.Array]) -> list[bytes | None]:
        """Record keys from the key columns, without windows; None if all parts are null."""
        sink = self._sink
        return encode_keys(
            sink.key_columns,
            arrays,
            sink.key_format,
            sink.key_delimiter,
            always=sink.always_keyed,
            nullable=sink.key_nullable,
            schema=sink.key_schema,
        )

    def windowed(
        self, keys: Sequence[bytes | None], starts: Sequence[int], ends: Sequence[int]
    ) -> list[bytes | None]:
        """Record keys with their windows (ms) appended, by the sink's kind of window."""
        if self._sink.window is None:
            return list(keys)
        rows = zip(keys, starts, ends, strict=True)
        if self._sink.window is WindowKind.SESSION:
            return [None if k is None else session_key(k, start, end) for k, start, end in rows]
        return [None if k is None else window_key(k, start) for k, start, _ in rows]

    def values(self, arrays: Sequence[pa.Array]) -> Sequence[bytes | None]:
        """Record values from the value columns."""
        sink = self._sink
        return encode_values(
            sink.value_columns,
            arrays,
            sink.value_format,
            wrap=sink.wrap_single,
            delimiter=sink.delimiter,
            nullable=sink.nullable,
            schema=sink.value_schema,
        )

    def times(
        self,
        keys: Sequence[pa.Array],
        values: Sequence[pa.Array],
        tombstones: Sequence[bool],
        times: Sequence[int],
    ) -> Sequence[int]:
        """Record timestamps in ms; negative: the record has none and must not be written.

        From the TIMESTAMP column if the sink has one; a tombstone keeps its time from `times`.
        """
        if self._stamped is None:
            return times
        column = [*keys, *values][self._stamped]
        found, bad = self._times.of(column, list(times), np.array(tombstones, np.bool_))
        found[list(bad)] = -1
        stamps: list[int] = found.tolist()
        return stamps
