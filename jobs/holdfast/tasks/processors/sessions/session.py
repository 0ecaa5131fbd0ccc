"""SESSION windows record by record: every change, or final results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.processors.aggregates.results import Frame, Results, SinkRows
from holdfast.tasks.processors.aggregates.rounds import in_order, order_of
from holdfast.tasks.processors.aggregates.state import (
    Columns,
    StateColumns,
    chunk,
    combined,
    payload_schema,
)
from holdfast.tasks.processors.base import KEY, Changes, StoreView, TimedProcessor, Watermark
from holdfast.tasks.processors.sessions.plan import (
    Event,
    Node,
    Session,
    Sessions,
    session_state_keys,
)
from holdfast.types.statements.topology import TIMESTAMP, AggregateStep, Emit, Query

__all__ = ["SessionProcessor"]


class SessionProcessor(TimedProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        step = query.step
        if not isinstance(step, AggregateStep) or step.window is None:
            raise TypeError(f"{query.id} has no sessions")
        self._emit = step.emit
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
        keyed = in_order(payload, None)
        times = keyed[TIMESTAMP].to_pylist()
        newest = max([stream_time_ms, *times])
        after = newest if watermark is None else watermark.after(stream_time_ms, newest)
        sessions = self._sessions(keyed, stream_time_ms, after, store)
        sessions.held = watermark is not None
        for record, (key, time) in enumerate(zip(keyed[KEY].to_pylist(), times, strict=True)):
            sessions.add(record, key, time)
        if watermark is not None:
            sessions.close(after)
        state = self._made(sessions, keyed)
        sink, events = self._written(sessions, state)
        keys, kept, created, removed = self._stored(sessions, state)
        return Changes(
            keys=keys,
            rows=kept,
            created=created,
            removed=removed,
            sink_keys=sink.keys,
            sink_values=sink.values,
            sink_timestamps=sink.timestamps,
            sink_order=_order(keyed, [e.record for e in events]),
            stream_time_ms=newest,
            records=payload.num_rows,
            dropped_null_key=payload.num_rows - keyed.num_rows,
            dropped_late=sessions.late,
        )

    def _sessions(
        self, keyed: pa.Table, stream_time_ms: int, after_ms: int, store: StoreView
    ) -> Sessions:
        gap_ms, kept_ms = self._window.size_ms, self._window.retention_ms
        open_ms = gap_ms + self._window.grace_ms
        final = self._emit is Emit.FINAL
        sessions = Sessions(gap_ms, open_ms, kept_ms, stream_time_ms, final)
        sessions.load(keyed[KEY].unique().to_pylist(), store)
        if final:
            sessions.await_closing(stream_time_ms - open_ms, after_ms - open_ms, store)
        return sessions

    def _made(self, sessions: Sessions, records: pa.Table) -> Columns:
        """The state of every node, level by level, each from its parents."""
        _, _, pool = self._state.codec.decode(sessions.rows)
        place = {node: node for node in range(len(sessions.rows))}
        for level in _levels(sessions.nodes):
            # Nodes with most parents first: those that have a j-th parent are then a slice.
            level.sort(key=lambda node: -len(sessions.nodes[node].parents))
            nodes = [sessions.nodes[node] for node in level]
            at = pa.array([place[p] for node in nodes for p in node.parents], pa.int64())
            counts = np.array([len(node.parents) for node in nodes], np.int64)
            old = combined(self._state, [column.take(at) for column in pool], counts)
            rows = records.take(pa.array([n.record for n in nodes], pa.int64()))
            made = self._state.merge(old, rows)
            self._state.check(made, chunk(rows[KEY]))
            place.update({node: len(place) + i for i, node in enumerate(level)})
            pool = [pa.concat_arrays(pair) for pair in zip(pool, made, strict=True)]
        back = pa.array([place[node] for node in range(len(sessions.nodes))], pa.int64())
        return [column.take(back) for column in pool]

    def _written(self, sessions: Sessions, state: Columns) -> tuple[SinkRows, list[Event]]:
        every = [node.session for node in sessions.nodes]
        finished = self._state.finish(state)
        passes = self._results.passes(_frame(every), finished)
        events = [e for e in sessions.events if _passed(e, passes)]
        nodes = [e.after if e.after >= 0 else e.before for e in events]
        at = pa.array(nodes, pa.int64())
        alive = np.array([e.after >= 0 and bool(passes[e.after]) for e in events], np.bool_)
        shown = [e.session for e in events]
        sink = self._results.write(
            _frame(shown),
            {name: array.take(at) for name, array in finished.items()},
            [s.end for s in shown],
            alive,
        )
        return sink, [events[i] for i in sink.rows]

    def _stored(
        self, sessions: Sessions, state: Columns
    ) -> tuple[list[bytes], list[bytes | None], list[bytes], int]:
        """(state keys, rows, new state keys, number of removed rows)."""
        count, left = len(sessions.stored), sessions.left()
        changed = [s for s in left if s.node >= count]
        starts = np.array([s.start for s in changed], np.int64)
        ends = np.array([s.end for s in changed], np.int64)
        plain = pa.array([s.key for s in changed], pa.binary())
        names = pa.array(session_state_keys(plain, starts, ends), pa.binary())
        order = pc.sort_indices(names)  # writing in key order is fastest
        keys: list[bytes] = names.take(order).to_pylist()
        at = pa.array([s.node for s in changed], pa.int64()).take(order)
        columns = [column.take(at) for column in state]
        rows = self._state.codec.encode(ends[order.to_numpy()], columns)
        before = set(sessions.stored)
        kept = {sessions.stored[s.node] for s in left if s.node < count} | set(keys)
        gone = [key for key in sessions.stored if key not in kept]
        created = [key for key in keys if key not in before]
        none: list[bytes | None] = [None] * len(gone)
        return [*keys, *gone], [*rows, *none], created, len(gone)


def _order(records: pa.Table, causes: list[int]) -> list[int]:
    """The sequence numbers of records; empty if the end of a batch was the cause."""
    return [] if -1 in causes else order_of(records, np.array(causes, np.int64))


def _levels(nodes: Sequence[Node]) -> list[list[int]]:
    """The nodes that records made, in levels: a node's parents are in earlier levels."""
    depth: list[int] = []
    levels: list[list[int]] = []
    for at, node in enumerate(nodes):
        mine = 0 if node.record < 0 else 1 + max((depth[p] for p in node.parents), default=0)
        depth.append(mine)
        if mine > len(levels):
            levels.append([])
        if mine:
            levels[mine - 1].append(at)
    return levels


def _passed(event: Event, passes: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> bool:
    """Whether a reader of the table sees the event: the row passes HAVING, or did before."""
    after = event.after >= 0 and bool(passes[event.after])
    return after or (event.before >= 0 and bool(passes[event.before]))


def _frame(sessions: Sequence[Session]) -> Frame:
    return Frame([s.key for s in sessions], [s.start for s in sessions], [s.end for s in sessions])
