"""GROUP BY record by record: every change, the changes of a table, or final results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.state.table_store import Elements
from holdfast.tasks.evaluate.keys import split_window
from holdfast.tasks.processors.aggregates.results import Frame, Results, SinkRows
from holdfast.tasks.processors.aggregates.rounds import (
    Groups,
    Rows,
    Steps,
    in_order,
    order_of,
    run,
    running_time,
)
from holdfast.tasks.processors.aggregates.state import (
    WINDOW,
    StateColumns,
    payload_schema,
    state_keys_of,
)
from holdfast.tasks.processors.base import Changes, StoreView, TimedProcessor, Watermark
from holdfast.types.statements.topology import AggregateStep, Emit, Query, Window

__all__ = ["RecordAggregateProcessor"]


@dataclass(frozen=True)
class _Arrived:
    """The records of a batch that were not dropped, and the state before and after each."""

    records: pa.Table
    groups: Groups
    present: npt.NDArray[np.bool_]
    old: Steps
    steps: Steps
    elements: Elements


class RecordAggregateProcessor(TimedProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        step = query.step
        if not isinstance(step, AggregateStep):
            raise TypeError(f"{query.id} has no aggregate step")
        self._step = step
        self._window = step.window
        self._state = StateColumns(step)
        self._results = Results(query, step)
        self._schema = payload_schema(step)

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
        """Applies records in arrival order; each sees stream time including its own event time.

        With a watermark all records see the stream time before the batch.
        """
        keyed = in_order(payload, None if self._window is None else WINDOW)
        running = running_time(keyed, stream_time_ms)
        newest = int(running[-1]) if len(running) else stream_time_ms
        times = running if watermark is None else np.full(len(running), stream_time_ms)
        after = newest if watermark is None else watermark.after(stream_time_ms, newest)
        arrived = self._arrive(self._live(keyed, times), store)
        last = arrived.steps.take(arrived.groups.last)
        if self._step.emit is Emit.FINAL and self._window is not None:
            final = _Closing(self._window, stream_time_ms, after, times, keyed)
            sink, order = self._final(final, arrived.groups.keys, last, store)
        else:
            sink, order = self._changes(arrived)
        keys = arrived.groups.keys
        return Changes(
            keys=keys,
            rows=list(self._state.codec.encode(last.rowtime, last.columns)),
            created=[k for k, p in zip(keys, arrived.present, strict=True) if not p],
            sink_keys=sink.keys,
            sink_values=sink.values,
            sink_timestamps=sink.timestamps,
            sink_order=order,
            stream_time_ms=newest,
            records=payload.num_rows,
            dropped_null_key=payload.num_rows - keyed.num_rows,
            dropped_late=keyed.num_rows - arrived.records.num_rows,
            elements=arrived.elements,
        )

    def _live(self, keyed: pa.Table, times: Rows) -> pa.Table:
        """Drops the records whose window has closed: end + grace <= stream time."""
        if self._window is None:
            return keyed
        ends = keyed[WINDOW].to_numpy() + self._window.size_ms + self._window.grace_ms
        return keyed.filter(pa.array(ends > times))

    def _arrive(self, live: pa.Table, store: StoreView) -> _Arrived:
        groups = Groups.by(state_keys_of(self._step, live))
        rows = store.get_many(groups.keys)
        time, present, columns = self._state.codec.decode(rows)
        live, elements = self._state.resolved(live, groups.of, groups.keys, rows, store)
        old = Steps(columns, np.where(present, time, np.iinfo(np.int64).min))
        steps = run(self._state, groups, live, old.columns, old.rowtime)
        return _Arrived(live, groups, present, old, steps, elements)

    # -- every change, or each group's last ----------------------------------------------------

    def _changes(self, arrived: _Arrived) -> tuple[SinkRows, list[int]]:
        groups, frame = arrived.groups, self._frame(arrived.groups.keys)
        frames = frame.take(groups.of)
        finished = self._state.finish(arrived.steps.columns)
        alive = self._results.passes(frames, finished)
        found = self._results.passes(frame, self._state.finish(arrived.old.columns))
        found &= arrived.present
        if self._step.emit is Emit.BATCH:
            kept = np.sort(groups.last)
            was = found[groups.of[kept]]
        else:
            before = groups.before
            kept = np.arange(len(before))
            was = np.where(before < 0, found[groups.of], alive[before])
        kept = kept[alive[kept] | was]
        sink = self._results.write(
            frames.take(kept),
            {name: array.take(pa.array(kept)) for name, array in finished.items()},
            arrived.steps.rowtime[kept].tolist(),
            alive[kept],
        )
        return sink, order_of(arrived.records, kept[sink.rows])

    def _frame(self, keys: list[bytes]) -> Frame:
        if self._window is None:
            return Frame(keys)
        plain, starts = split_window(keys)
        return Frame(plain, starts, [s + self._window.size_ms for s in starts])

    # -- final results -------------------------------------------------------------------------

    def _final(
        self, closing: _Closing, keys: list[bytes], last: Steps, store: StoreView
    ) -> tuple[SinkRows, list[int]]:
        """Results of the windows that closed in this batch, in the order in which they closed."""
        touched = set(keys)
        stored = [k for k in store.in_time(*closing.starts) if k not in touched]
        time, _, columns = self._state.codec.decode(store.get_many(stored))
        whole = [pa.concat_arrays(pair) for pair in zip(last.columns, columns, strict=True)]
        steps = Steps(whole, np.concatenate([last.rowtime, time]))
        frame = self._frame(keys + stored)
        rows, by = closing.order(frame)
        chosen = steps.take(rows)
        finished = self._state.finish(chosen.columns)
        alive = self._results.passes(frame.take(rows), finished)
        passed = np.flatnonzero(alive)
        sink = self._results.write(
            frame.take(rows[passed]),
            {name: array.take(pa.array(passed)) for name, array in finished.items()},
            chosen.rowtime[passed].tolist(),
        )
        return sink, closing.causes(by[passed][sink.rows])


@dataclass(frozen=True)
class _Closing:
    """The windows that a batch closes, and the record that closes each.

    Every window is emitted, however far stream time jumps over its end.  If the statement asks for
    Kafka Streams' rule, a window that starts more than the retention before the newest is not.
    """

    window: Window
    stream_time_ms: int
    after_ms: int
    times: Rows
    records: pa.Table

    @property
    def starts(self) -> tuple[int, int]:
        """The range of window starts that the batch closes: from the first, before the second."""
        return self.stream_time_ms - self._open + 1, self.after_ms - self._open + 1

    @property
    def _open(self) -> int:
        return self.window.size_ms + self.window.grace_ms

    def causes(self, by: Rows) -> list[int]:
        """The sequence numbers of those records; empty if the end of the batch closes windows."""
        return order_of(self.records, by) if len(by) and by.max() < len(self.times) else []

    def order(self, frame: Frame) -> tuple[Rows, Rows]:
        """Rows of the frame in the order of closing, and the record that closes each."""
        starts = np.array(frame.starts, np.int64)
        first, last = self.starts
        rows = np.flatnonzero((starts >= first) & (starts < last))
        by = np.searchsorted(self.times, starts[rows] + self._open).astype(np.int64)
        if self.window.final_within_retention:
            times = np.append(self.times, self.after_ms)  # the batch's end may close windows, too
            newest = times[by] // self.window.advance_ms * self.window.advance_ms
            kept = starts[rows] >= newest - self.window.retention_ms
            rows, by = rows[kept], by[kept]
        keys = sorted({frame.keys[i] for i in rows.tolist()})
        rank = {key: n for n, key in enumerate(keys)}
        ranks = np.array([rank[frame.keys[i]] for i in rows.tolist()], np.int64)
        sorted_rows = np.lexsort((ranks, starts[rows], by))
        return rows[sorted_rows], by[sorted_rows]
