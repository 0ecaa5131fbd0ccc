"""The processor of GROUP BY: merges one batch's partials into the stored rows, in columns.

Pure: it is given old rows and returns what to write.  `StateTask` does the reading and writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.folds import Groups
from holdfast.tasks.processors.aggregate_results import Frame, Results, SinkRows
from holdfast.tasks.processors.aggregate_state import (
    COUNT,
    ROWTIME,
    WINDOW,
    Columns,
    StateColumns,
    chunk,
    folded,
    payload_schema,
    state_keys_of,
)
from holdfast.tasks.processors.base import KEY, NO_TIME, Changes, Processor, StoreView
from holdfast.types.topology import AggregateStep, Query

__all__ = ["AggregateProcessor"]


def _changes(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Where a column without nulls differs from the row before; true of the first row."""
    found = np.ones(len(column), np.bool_)
    found[1:] = pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return found


class AggregateProcessor(Processor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        step = query.step
        if not isinstance(step, AggregateStep):
            raise TypeError(f"{query.id} has no aggregate step")
        self._step = step
        self._state = StateColumns(step)
        self._results = Results(query, step)
        self._schema = payload_schema(step)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        """Merges a payload (partials by key and window) given the stream time before the batch."""
        records = pc.sum(payload[COUNT]).as_py() or 0
        keyed = payload.filter(pc.is_valid(payload[KEY]))
        newest = pc.max(keyed[ROWTIME]).as_py()
        live = self._merged(self._sorted(self._drop_late(keyed, stream_time_ms)))
        keys = state_keys_of(self._step, live)
        old_rows = self._old_rows(keys, live, stream_time_ms, store)
        rowtime, rows, old, new = self._merge(live, old_rows)
        sink = self._emit(self._frame(live, keys), old_rows, old, new, rowtime)
        return Changes(
            keys=keys,
            rows=list(rows),
            created=[k for k, r in zip(keys, old_rows, strict=True) if r is None],
            sink_keys=sink.keys,
            sink_values=sink.values,
            sink_timestamps=sink.timestamps,
            stream_time_ms=stream_time_ms if newest is None else max(stream_time_ms, newest),
            records=records,
            dropped_null_key=records - (pc.sum(keyed[COUNT]).as_py() or 0),
            dropped_late=(pc.sum(keyed[COUNT]).as_py() or 0) - (pc.sum(live[COUNT]).as_py() or 0),
        )

    def _drop_late(self, payload: pa.Table, stream_time_ms: int) -> pa.Table:
        """Records of windows that closed: end + grace <= stream time (Kafka Streams' rule)."""
        window = self._step.window
        if window is None:
            return payload
        closed_before = stream_time_ms - window.grace_ms - window.size_ms
        return payload.filter(pc.greater(payload[WINDOW], closed_before))

    def _sorted(self, payload: pa.Table) -> pa.Table:
        """By key: neighbours share blocks of the store, which halves reading and writing."""
        by = [KEY] if self._step.window is None else [KEY, WINDOW]
        return payload.take(pc.sort_indices(payload, [(name, "ascending") for name in by]))

    def _merged(self, payload: pa.Table) -> pa.Table:
        """One row per key and window: several topic partitions may have had records of it."""
        by = [KEY] if self._step.window is None else [KEY, WINDOW]
        columns = [chunk(payload[name]) for name in by]
        starts = reduce(np.logical_or, map(_changes, columns))
        if starts.all():
            return payload
        groups = Groups(np.cumsum(starts) - 1, int(starts.sum()))
        firsts = pa.array(np.flatnonzero(starts))
        return pa.table(folded(self._step, payload, groups, firsts), schema=self._schema)

    def _old_rows(
        self, keys: list[bytes], payload: pa.Table, stream_time_ms: int, store: StoreView
    ) -> list[bytes | None]:
        """A window that starts after all records so far has no row, and is not asked for."""
        if self._step.window is None or stream_time_ms == NO_TIME:
            return store.get_many(keys)
        asked = np.flatnonzero(payload[WINDOW].to_numpy() <= stream_time_ms).tolist()
        rows: list[bytes | None] = [None] * len(keys)
        for i, row in zip(asked, store.get_many([keys[i] for i in asked]), strict=True):
            rows[i] = row
        return rows

    def _merge(
        self, payload: pa.Table, old_rows: Sequence[bytes | None]
    ) -> tuple[npt.NDArray[np.int64], list[bytes], Columns, Columns]:
        old_time, present, old = self._state.codec.decode(old_rows)
        new = self._state.merge(old, payload)
        newest = chunk(payload[ROWTIME]).to_numpy(zero_copy_only=False)
        rowtime = np.where(present, np.maximum(old_time, newest), newest).astype(np.int64)
        return rowtime, self._state.codec.encode(rowtime, new), old, new

    def _emit(
        self,
        frame: Frame,
        old_rows: Sequence[bytes | None],
        old: Columns,
        new: Columns,
        rowtime: npt.NDArray[np.int64],
    ) -> SinkRows:
        """Of each row its record; a tombstone, or none, where HAVING does not pass it."""
        finished = self._state.finish(new)
        times = rowtime.tolist()
        if self._step.having is None:
            return self._results.write(frame, finished, times)
        alive = self._results.passes(frame, finished)
        present = np.fromiter((r is not None for r in old_rows), np.bool_, len(old_rows))
        was = present & self._results.passes(frame, self._state.finish(old))
        kept = np.flatnonzero(alive | was)
        return self._results.write(
            frame.take(kept),
            {name: array.take(kept) for name, array in finished.items()},
            rowtime[kept].tolist(),
            alive[kept],
        )

    def _frame(self, payload: pa.Table, keys: list[bytes]) -> Frame:
        window = self._step.window
        if window is None:
            return Frame(keys)
        starts = payload[WINDOW].to_numpy()
        return Frame(
            payload[KEY].to_pylist(), starts.tolist(), (starts + window.size_ms).tolist(), keys
        )
