"""The processor of GROUP BY: merges one batch's partials into the stored rows, in columns.

Pure: it takes old rows and returns what to write.  `StateTask` does the reading and writing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.state.changelog import StateKeys
from holdfast.tasks.pack.folds import Groups
from holdfast.tasks.pack.key_order import key_order
from holdfast.tasks.processors.aggregates.results import Frame, Results, SinkRows
from holdfast.tasks.processors.aggregates.state import (
    COUNT,
    ROWTIME,
    WINDOW,
    Columns,
    StateColumns,
    chunk,
    folded,
    in_arrival_order,
    payload_schema,
    state_keys_of,
)
from holdfast.tasks.processors.base import (
    KEY,
    NO_TIME,
    Changes,
    StoreView,
    TimedProcessor,
    Watermark,
)
from holdfast.types.columns.pieces import Lazy
from holdfast.types.statements.topology import OFFSET, PARTITION, AggregateStep, Query

__all__ = ["AggregateProcessor"]


class AggregateProcessor(TimedProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        step = query.step
        if not isinstance(step, AggregateStep):
            raise TypeError(f"{query.id} has no aggregate step")
        self._step = step
        self._state = StateColumns(step)
        self._results = Results(query, step)
        self._schema = payload_schema(step)
        self._in_arrival_order = in_arrival_order(step)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def process(
        self,
        payload: pa.Table,
        stream_time_ms: int,
        store: StoreView,
        watermark: Watermark | None = None,
    ) -> Changes:
        """Merges a payload (partials by key and window) given the stream time before the batch."""
        records = pc.sum(payload[COUNT]).as_py() or 0
        keyed = payload.filter(pc.is_valid(payload[KEY]))
        newest = pc.max(keyed[ROWTIME]).as_py()
        live = self._by_key(self._drop_late(keyed, stream_time_ms))
        keys = state_keys_of(self._step, live)
        # With a watermark, windows beyond stream time may already have rows.
        seen = stream_time_ms if watermark is None else max(stream_time_ms, watermark.newest_ms)
        old_rows = self._old_rows(keys, live, seen, store)
        old_time, present, old = self._state.codec.decode(old_rows)
        live, elements = self._state.resolved(live, np.arange(len(keys)), keys, old_rows, store)
        new = self._state.merge(old, live)
        self._state.check(new, chunk(live[KEY]))
        newest_of = chunk(live[ROWTIME]).to_numpy(zero_copy_only=False)
        rowtime = np.where(present, np.maximum(old_time, newest_of), newest_of).astype(np.int64)
        rows = self._state.codec.encode(rowtime, new)
        sink = self._emit(self._frame(live, keys), present, old, new, rowtime)
        return Changes(
            keys=keys,
            rows=rows,
            created=Lazy(keys.array.filter(pa.array(~present))),
            sink_keys=sink.keys,
            sink_values=sink.values,
            sink_timestamps=sink.timestamps,
            stream_time_ms=stream_time_ms if newest is None else max(stream_time_ms, newest),
            records=records,
            dropped_null_key=records - (pc.sum(keyed[COUNT]).as_py() or 0),
            dropped_late=(pc.sum(keyed[COUNT]).as_py() or 0) - (pc.sum(live[COUNT]).as_py() or 0),
            elements=elements,
        )

    def _drop_late(self, payload: pa.Table, stream_time_ms: int) -> pa.Table:
        """Drops records of closed windows: end + grace <= stream time (Kafka Streams' rule)."""
        window = self._step.window
        if window is None:
            return payload
        closed_before = stream_time_ms - window.grace_ms - window.size_ms
        return payload.filter(pc.greater(payload[WINDOW], closed_before))

    def _by_key(self, payload: pa.Table) -> pa.Table:
        """One row per key and window, ordered by both.

        Records of one key and window may come from several topic partitions.
        """
        if self._in_arrival_order:
            places = payload[PARTITION].to_numpy(), payload[OFFSET].to_numpy()
            payload = payload.take(pa.array(np.lexsort(places)))
        windows = None if self._step.window is None else payload[WINDOW].to_numpy()
        order, starts = key_order(chunk(payload[KEY]), windows)
        ordered = payload.take(pa.array(order))
        if starts.all():
            return ordered
        groups = Groups(np.cumsum(starts) - 1, int(starts.sum()))
        firsts = pa.array(np.flatnonzero(starts))
        return pa.table(folded(self._step, ordered, groups, firsts), schema=self._schema)

    def _old_rows(
        self, keys: StateKeys, payload: pa.Table, newest_ms: int, store: StoreView
    ) -> list[bytes | None]:
        """Reads the stored rows, except for windows that start after all records so far."""
        if self._step.window is None or newest_ms == NO_TIME:
            return store.get_many(keys)
        asked = np.flatnonzero(payload[WINDOW].to_numpy() <= newest_ms)
        if len(asked) == len(keys):
            return store.get_many(keys)
        rows: list[bytes | None] = [None] * len(keys)
        found = store.get_many(StateKeys(keys.array.take(pa.array(asked))))
        for i, row in zip(asked.tolist(), found, strict=True):
            rows[i] = row
        return rows

    def _emit(
        self,
        frame: Frame,
        present: npt.NDArray[np.bool_],
        old: Columns,
        new: Columns,
        rowtime: npt.NDArray[np.int64],
    ) -> SinkRows:
        """One sink record per row; a row that fails HAVING gives a tombstone or no record."""
        finished = self._state.finish(new)
        if self._step.having is None:
            return self._results.write(frame, finished, Lazy(pa.array(rowtime)))
        alive = self._results.passes(frame, finished)
        was = present & self._results.passes(frame, self._state.finish(old))
        kept = np.flatnonzero(alive | was)
        return self._results.write(
            frame.take(kept),
            {name: array.take(kept) for name, array in finished.items()},
            Lazy(pa.array(rowtime[kept])),
            alive[kept],
        )

    def _frame(self, payload: pa.Table, keys: StateKeys) -> Frame:
        window = self._step.window
        if window is None:
            return Frame(keys)
        starts = payload[WINDOW].to_numpy()
        ends = pa.array(starts + window.size_ms)
        return Frame(Lazy(chunk(payload[KEY])), Lazy(pa.array(starts)), Lazy(ends), keys)
