"""Sink records of an aggregation: keys, windows, values and tombstones from finished columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.keys import (
    decode_keys,
    keeps_state_keys,
    session_keys,
    sink_keys,
    window_keys,
)
from holdfast.tasks.evaluate.outputs import Expressions
from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.types.columns.pieces import as_array, taken
from holdfast.types.statements.topology import AggregateStep, Query, WindowKind

__all__ = ["Frame", "Results", "SinkRows"]


@dataclass
class SinkRows:
    """Records of the sink, in order; `rows` is the frame's row behind each record."""

    keys: Sequence[bytes] = ()
    values: Sequence[bytes | None] = ()
    timestamps: Sequence[int] = ()
    rows: Sequence[int] = ()


@dataclass(frozen=True)
class Frame:
    """The rows that results are for: state keys without window, and the windows' bounds in ms.

    `windowed`: state keys with their windows, if known already.
    """

    keys: Sequence[bytes]
    starts: Sequence[int] | None = None
    ends: Sequence[int] | None = None
    windowed: Sequence[bytes] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: npt.NDArray[np.int64]) -> Frame:
        return Frame(
            taken(self.keys, rows),
            None if self.starts is None else taken(self.starts, rows),
            None if self.ends is None else taken(self.ends, rows),
            None if self.windowed is None else taken(self.windowed, rows),
        )


class Results:
    """Turns a query's finished aggregates into sink records."""

    def __init__(self, query: Query, step: AggregateStep) -> None:
        self._step = step
        self._sink = query.sink
        self._records = SinkRecords(query.sink)
        self._expressions = Expressions(step.outputs, step.having)
        self._keeps_keys = keeps_state_keys(query.sink.key_columns, query.sink.key_format)
        aggregates = {call.name for call in step.aggregates}
        # Most results consist of aggregates only and need no key columns.
        self._of_aggregates = (
            self._keeps_keys
            and query.sink.timestamp is None
            and all(o.ref in aggregates for o in step.outputs)
        )

    def passes(self, frame: Frame, finished: dict[str, pa.Array]) -> npt.NDArray[np.bool_]:
        """Which rows pass HAVING; all rows without a HAVING."""
        if self._step.having is None or not len(frame):
            return np.ones(len(frame), np.bool_)
        columns = {**self._columns(frame), **finished}
        return np.array(self._expressions.passes(columns), np.bool_)

    def write(
        self,
        frame: Frame,
        finished: dict[str, pa.Array],
        timestamps: Sequence[int],
        alive: npt.NDArray[np.bool_] | None = None,
    ) -> SinkRows:
        """One record per row: a tombstone if the row is not `alive` (by default all are).

        A row whose TIMESTAMP column is null is not written.
        """
        if not len(frame):
            return SinkRows()
        named = {} if self._of_aggregates else self._columns(frame)
        values = self._expressions.columns({**named, **finished})
        keys = self._keys(frame, named)
        dead = [] if alive is None else np.flatnonzero(~alive).tolist()
        encoded = self._records.values(values)
        tombstones = [False] * len(frame)
        for i in dead:
            tombstones[i] = True
        if dead:
            pairs = zip(encoded, tombstones, strict=True)
            encoded = [None if gone else value for value, gone in pairs]
        arrays = [named[k.column.name] for k in self._step.keys] if named else []
        times = self._records.times(arrays, values, tombstones, timestamps)
        rows = SinkRows(keys, encoded, times, range(len(keys)))
        return rows if pc.min(as_array(times, pa.int64())).as_py() >= 0 else _timed(rows)

    def _keys(self, frame: Frame, named: dict[str, pa.Array]) -> Sequence[bytes]:
        if self._keeps_keys and frame.windowed is not None:
            return frame.windowed
        plain = frame.keys if self._keeps_keys else self._encoded(frame, named)
        if frame.starts is None or frame.ends is None or self._step.window is None:
            return plain
        if self._step.window.kind is WindowKind.SESSION:
            return session_keys(plain, frame.starts, frame.ends)
        return window_keys(as_array(plain, pa.binary()), frame.starts)

    def _encoded(self, frame: Frame, named: dict[str, pa.Array]) -> list[bytes]:
        arrays = [named[k.column.name] for k in self._step.keys]
        return sink_keys(frame.keys, arrays, self._sink)

    def _columns(self, frame: Frame) -> dict[str, pa.Array]:
        """Key columns and window bounds by name."""
        columns = [k.column for k in self._step.keys]
        arrays = decode_keys(frame.keys, columns)
        named = {c.name: a for c, a in zip(columns, arrays, strict=True)}
        if frame.starts is not None:
            named["WINDOWSTART"] = as_array(frame.starts, pa.int64())
            named["WINDOWEND"] = as_array(frame.ends or (), pa.int64())
        return named


def _timed(rows: SinkRows) -> SinkRows:
    kept = np.flatnonzero(as_array(rows.timestamps, pa.int64()).to_numpy() >= 0)
    columns = (rows.keys, rows.values, rows.timestamps, rows.rows)
    return SinkRows(*(taken(column, kept) for column in columns))
