"""Tables whose state is their rows: aggregates, windowed or not, read from their changelog."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.serve.contract import GENERATION, WINDOWEND, WINDOWSTART, WindowBounds
from holdfast.serve.tables.base import StoredTable, finished
from holdfast.serve.tables.literals import ordered_ranges, state_key
from holdfast.state.restore import RowsOf, changelog_rows
from holdfast.tasks.evaluate.keys import decode_keys, split_window, split_windowed
from holdfast.tasks.evaluate.outputs import Expressions
from holdfast.tasks.processors.aggregates.state import StateColumns
from holdfast.tasks.processors.sessions.plan import bounds_of, key_range, split_session
from holdfast.transport.partitioner import state_partition
from holdfast.types.statements.topology import AggregateStep, WindowKind

__all__ = ["ChangelogTable"]

_WINDOW = struct.Struct(">q")
_LATEST = (1 << 63) - 1


@dataclass(frozen=True)
class ChangelogTable(StoredTable):
    """A table of aggregates; its stored rows are the aggregates' state, by state key."""

    step: AggregateStep
    generation: int = 0
    _state: StateColumns = field(init=False, repr=False, compare=False)
    _outputs: Expressions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_state", StateColumns(self.step))
        object.__setattr__(self, "_outputs", Expressions(self.step.outputs, self.step.having))

    @property
    def held_as(self) -> str:
        return f"{self.name}{GENERATION}{self.generation}" if self.generation else self.name

    @property
    def hides_rows(self) -> bool:
        return self.step.having is not None

    @property
    def has_markers(self) -> bool:
        return True

    @property
    def rows_of(self) -> RowsOf:
        return changelog_rows

    @property
    def _sessions(self) -> bool:
        return self.window is WindowKind.SESSION

    def decode(self, keys: Sequence[bytes], rows: Sequence[bytes | None]) -> pa.Table:
        times, present, state = self._state.codec.decode(rows)
        arrays, bounds = self._key_arrays(keys)
        named = {k.column.name: a for k, a in zip(self.step.keys, arrays, strict=True)} | bounds
        frame = {**named, **self._state.finish(state)}
        if self.step.having is not None and len(keys):
            present = present & np.array(self._outputs.passes(frame), np.bool_)
        values = self._values(frame) if len(keys) else self._no_values()
        return finished(
            self, [*arrays, *bounds.values()], values, pa.array(times, pa.int64()), present
        )

    def _values(self, frame: Mapping[str, pa.Array]) -> list[pa.Array]:
        """The value columns in the table's types: an output may be the digits of a DECIMAL."""
        found = self._outputs.columns(frame)
        return [a.cast(c.type.arrow()) for a, c in zip(found, self.value_columns, strict=True)]

    def _no_values(self) -> list[pa.Array]:
        return [pa.array([], c.type.arrow()) for c in self.value_columns]

    def _key_arrays(self, keys: Sequence[bytes]) -> tuple[list[pa.Array], dict[str, pa.Array]]:
        plain, bounds = list(keys), {}
        if self._sessions:
            starts, ends = bounds_of(keys)
            plain = [split_session(key)[0] for key in keys]
            bounds = {WINDOWSTART: pa.array(starts), WINDOWEND: pa.array(ends)}
        elif self.window is not None:
            plain, opened = split_window(keys)
            at = np.array(opened, np.int64)
            bounds = {WINDOWSTART: pa.array(at), WINDOWEND: pa.array(at + self.window_size_ms)}
        columns = [k.column for k in self.step.keys]
        return decode_keys(plain, columns), bounds

    def key_of(self, values: Sequence[Any]) -> bytes:
        return state_key(self.key_columns, values)

    def partition_of(self, key: bytes) -> int | None:
        return state_partition(key, self.partitions)

    def key_ranges(self, low: Any, high: Any) -> list[tuple[bytes, bytes | None]] | None:
        if self._sessions:  # stored keys begin with their length
            return None
        return ordered_ranges(self.key_columns, low, high, windowed=self.window is not None)

    def window_range(self, key: bytes, within: WindowBounds) -> tuple[bytes, bytes]:
        if self._sessions:
            return (
                key_range(key, within.end_from) if within.end_from is not None else key_range(key)
            )
        return window_range(key, within, self.window_size_ms)

    def split(self, stored: bytes) -> tuple[bytes, int, int]:
        if self._sessions:
            return split_session(stored)
        return split_windowed(stored, self.window or WindowKind.TUMBLING, self.window_size_ms)


def window_range(key: bytes, within: WindowBounds, size_ms: int) -> tuple[bytes, bytes]:
    """The range of a key's windows, stored as the key followed by the window start (8 bytes)."""
    ends = (within.end_from, within.end_to)
    by_end = [None if end is None else end - size_ms for end in ends]
    lows = [t for t in (within.start_from, by_end[0]) if t is not None]
    highs = [t for t in (within.start_to, by_end[1]) if t is not None]
    low, high = max(lows, default=-1), min(highs, default=_LATEST)
    if low < 0:  # times before 1970 sort after the others
        return key, key + b"\xff" * 9
    return key + _WINDOW.pack(min(low, _LATEST)), key + _WINDOW.pack(max(high, 0)) + b"\0"
