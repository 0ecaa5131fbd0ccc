"""The inner join of two streams: a whole batch at once, by the same rules and over the same state.

Nobody waits for a partner here, so all that one record after the other would find can be found
together: the rows of a side are sorted by key and time, and searched for each record of the other.
What `stream_stream` says of rows, sides and times holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.keys import decode_keys
from holdfast.tasks.processors.base import Changes, StoreView
from holdfast.tasks.processors.pairs import ROWTIME, Pairs
from holdfast.tasks.processors.records import Emitted, Overlay, RowProcessor, one_array
from holdfast.tasks.processors.stream_clock import Clock
from holdfast.tasks.processors.stream_meetings import Arrived, Kept, Meetings, Rows, meetings
from holdfast.tasks.processors.stream_rows import (
    expire_rows,
    places_of,
    range_of,
    reach_of,
    retention_of,
    row_keys,
)
from holdfast.types.topology import SEQUENCE, TIMESTAMP, JoinStep, Query

__all__ = ["StreamInnerProcessor"]


class StreamInnerProcessor(RowProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        step = query.step
        if not isinstance(step, JoinStep) or step.window is None:
            raise TypeError(f"{query.id} has no join step with a window")
        self._reach = reach_of(step)
        self._retention_ms = retention_of(step.window)
        self._pairs = Pairs(step, query.sink)

    @property
    def windowed(self) -> bool:
        return True

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        state = Overlay(store)
        clock = Clock(state)
        batch = _Batch(Arrived.read(payload), clock, self._retention_ms, payload.num_rows)
        newest = pc.max(payload[TIMESTAMP]).as_py()
        emitted = self._emitted(payload, batch, store)
        batch.advance(clock, newest)
        for side in (0, 1):
            expire_rows(state, store, side, clock.side(side) - self._retention_ms)
        keys, rows = self._kept(payload, batch)
        old_keys, old_rows, created, removed = state.changes()
        return Changes(
            keys=keys + old_keys,
            rows=[*rows, *old_rows],
            created=keys + created,
            removed=removed,
            sink_keys=emitted.keys,
            sink_values=emitted.values,
            sink_timestamps=emitted.times,
            sink_order=emitted.causes if _ordered(payload) else [],
            stream_time_ms=stream_time_ms if newest is None else max(stream_time_ms, newest),
            records=payload.num_rows,
            dropped_null_key=batch.arrived.null_keys,
            dropped_late=int(np.count_nonzero(~batch.kept)),
        )

    def _emitted(self, payload: pa.Table, batch: _Batch, store: StoreView) -> Emitted:
        arrived = batch.arrived
        stored = [self._stored(arrived, side, store) for side in (0, 1)]
        met = [self._met(batch, side, stored[1 - side]) for side in (0, 1)]
        causes = np.concatenate([met[0].cause, met[1].cause])
        order = np.argsort(causes, kind="stable")
        own = arrived.place[causes]
        other = np.concatenate([met[0].source, met[1].source])
        of_left = np.arange(len(causes)) < len(met[0].cause)
        sources = (np.where(of_left, own, other)[order], np.where(of_left, other, own)[order])
        causes = causes[order]
        times = np.concatenate([met[0].time, met[1].time])[order]
        frame = self._frame(payload, stored, sources)
        keys = decode_keys(arrived.keys, self._pairs.key_columns)
        at = pa.array(arrived.key[causes])
        for column, values in zip(self._pairs.key_columns, keys, strict=True):
            frame[column.name] = values.take(at)
        frame[ROWTIME] = pa.array(np.maximum(times, arrived.time[causes]))
        sequence = payload[SEQUENCE].take(pa.array(arrived.place[causes]))
        return self._pairs.of_frame(frame, pc.fill_null(sequence, 0).to_pylist())

    def _frame(
        self, payload: pa.Table, stored: list[_Stored], sources: tuple[Rows, Rows]
    ) -> dict[str, pa.Array]:
        frame: dict[str, pa.Array] = {}
        for side, source in zip((self._pairs.left, self._pairs.right), (0, 1), strict=True):
            at = pa.array(sources[source])
            for name, kept in side.decode(stored[source].rows).items():
                whole = pa.concat_arrays([one_array(payload[name]), kept])
                frame[name] = whole.take(at)
        return frame

    def _stored(self, arrived: Arrived, side: int, store: StoreView) -> _Stored:
        """The side's rows that records of the other side may meet; sources follow the payload's."""
        asking = np.flatnonzero(arrived.side != side)
        key, time = arrived.key[asking], arrived.time[asking]
        before, after = self._reach[1 - side]
        first = np.full(len(arrived.keys), np.iinfo(np.int64).max)
        last = np.full(len(arrived.keys), np.iinfo(np.int64).min)
        np.minimum.at(first, key, np.maximum(time - before, 0))
        np.maximum.at(last, key, time + after)
        wanted = np.flatnonzero(last >= 0)
        spans = zip(wanted.tolist(), first[wanted].tolist(), last[wanted].tolist(), strict=True)
        ranges = [range_of(side, arrived.keys[k], start, end) for k, start, end in spans]
        found = store.scan_many(ranges)
        key_of = np.repeat(wanted, [len(rows) for rows in found])
        flat = [each for rows in found for each in rows]
        times, numbers = places_of([state_key for state_key, _ in flat])
        return _Stored(key_of, times, numbers, [row for _, row in flat])

    def _met(self, batch: _Batch, side: int, stored: _Stored) -> Meetings:
        """What the side's records meet on the other side."""
        arrived = batch.arrived
        causes = np.flatnonzero(arrived.side == side)
        others = np.flatnonzero((arrived.side != side) & batch.kept)
        time = arrived.time[causes]
        before, after = self._reach[side]
        seen = batch.newest[1 - side][causes] - self._retention_ms + 1
        rows = Kept(
            np.concatenate([stored.key, arrived.key[others]]),
            np.concatenate([stored.time, arrived.time[others]]),
            np.concatenate([stored.number, batch.number[others]]),
            np.concatenate([np.full(len(stored.rows), -1), others]),
            np.concatenate([batch.rows + np.arange(len(stored.rows)), arrived.place[others]]),
        )
        first = np.maximum(np.maximum(time - before, seen), 0)
        return meetings(arrived.key[causes], causes, first, time + after, rows)

    def _kept(self, payload: pa.Table, batch: _Batch) -> tuple[list[bytes], list[bytes]]:
        """State keys and rows of the records that stay, in the order of the keys."""
        arrived = batch.arrived
        keys: list[bytes] = []
        rows: list[bytes] = []
        for side, encode in enumerate((self._pairs.left.encode, self._pairs.right.encode)):
            own = np.flatnonzero((arrived.side == side) & batch.kept)
            own = own[np.lexsort((arrived.time[own], arrived.key[own]))]
            named = [arrived.keys[k] for k in arrived.key[own].tolist()]
            keys += row_keys(side, named, arrived.time[own], batch.number[own])
            rows += encode(payload, arrived.place[own])
        return keys, rows


@dataclass(frozen=True)
class _Stored:
    """Rows of a side from before the batch."""

    key: Rows
    time: Rows
    number: Rows
    rows: list[bytes]


class _Batch:
    """The records of a batch, and what each finds the times to be.

    Attributes:
        newest: by side, the newest time that it has kept, at each record.
        kept: which records are not late for their side.
        number: of each record, as no row had it before.
        rows: of the payload.
    """

    def __init__(self, arrived: Arrived, clock: Clock, retention_ms: int, rows: int) -> None:
        self.arrived, self.rows = arrived, rows
        self.newest = tuple(arrived.newest(side, clock.side(side)) for side in (0, 1))
        own = np.where(arrived.side == 0, *self.newest)
        self.kept = arrived.time > own - retention_ms
        self.number = clock.numbers(len(arrived.time))

    def advance(self, clock: Clock, newest: int | None) -> None:
        """Tells the clock what the batch has brought, and has it kept."""
        if newest is not None:
            clock.advance(newest)
        for side in (0, 1):
            if len(self.newest[side]):
                clock.advance_side(side, int(self.newest[side][-1]))
        clock.store()


def _ordered(payload: pa.Table) -> bool:
    return payload.num_rows > 0 and not payload[SEQUENCE].null_count
