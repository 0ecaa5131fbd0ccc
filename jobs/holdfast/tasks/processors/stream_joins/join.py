"""Joins two streams within a time window by the rules of Kafka Streams, a batch at once.

Instead of record by record, the rows of a side are sorted by key and time and searched for all
records of the other side together.  The matches of a record depend on the stream times at its
arrival, which are computed for all records first.

A side's rows are visible, and kept, while they are newer than that side's own newest record minus
(before + after + grace), as in Kafka Streams' window stores.  Stream time, which both sides
advance, does not decide it; so the rows are removed here and not by the state task.

With GRACE PERIOD a row without partner waits until its window has closed, and is emitted at the
next record that is the newest so far.  Without GRACE PERIOD it is emitted at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.keys import decode_keys
from holdfast.tasks.processors.base import NO_TIME, SIDE, Changes, StoreView
from holdfast.tasks.processors.pairs import ROWTIME, Pairs
from holdfast.tasks.processors.records import Emitted, Overlay, RowProcessor, one_array
from holdfast.tasks.processors.stream_joins.clock import Clock
from holdfast.tasks.processors.stream_joins.meetings import (
    Arrived,
    Kept,
    Meetings,
    Rows,
    Stored,
    meetings,
)
from holdfast.tasks.processors.stream_joins.rows import (
    expired_rows,
    places_of,
    ranges_of,
    reach_of,
    retention_of,
    row_keys,
)
from holdfast.tasks.processors.stream_joins.waiting import NEVER, Alone, Settled, Waiting
from holdfast.types.statements.topology import SEQUENCE, TIMESTAMP, JoinKind, JoinStep, Query

__all__ = ["StreamJoinProcessor"]

# A batch removes at most this many rows of a side, or as many as it adds: batches stay short.
_EXPIRE_MIN = 20_000


class StreamJoinProcessor(RowProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        step = query.step
        if not isinstance(step, JoinStep) or step.window is None:
            raise TypeError(f"{query.id} has no join step with a window")
        self._reach = reach_of(step)
        self._retention_ms = retention_of(step.window)
        outer = JoinKind.LEFT, JoinKind.RIGHT
        self._outer = np.array([step.kind in (kind, JoinKind.FULL) for kind in outer])
        waits = step.window.grace_ms is not None and self._outer.any()
        self._waiting = Waiting(step) if waits else None
        self._pairs = Pairs(step, query.sink)

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        state = Overlay(store)
        clock = Clock(state)
        batch = _Batch(payload, clock, self._retention_ms)
        stored = self._stored(batch.arrived, 0, store), self._stored(batch.arrived, 1, store)
        met = self._met(batch, 0, stored[1]), self._met(batch, 1, stored[0])
        lonely = self._lonely(batch.arrived, met)
        settled = self._settled(batch, stored, met, lonely, store)
        results = Results(payload, batch.arrived, stored)
        results.add_told(settled)
        results.add_met(met)
        results.add_alone(lonely.told, self._outer)
        emitted = results.emitted(self._pairs)
        batch.advance(clock)
        keys, rows = self._kept(batch, settled)
        clock_keys, clock_rows, clock_created, _ = state.changes()
        gone = [*self._expired(clock, store, payload.num_rows), *settled.removed]
        none: list[bytes | None] = [None] * len(gone)
        ordered = payload.num_rows > 0 and payload[SEQUENCE].null_count == 0
        return Changes(
            keys=keys + clock_keys + gone,
            rows=[*rows, *clock_rows, *none],
            created=keys + clock_created,
            removed=len(gone),
            sink_keys=emitted.keys,
            sink_values=emitted.values,
            sink_timestamps=emitted.times,
            sink_order=emitted.causes if ordered else [],
            stream_time_ms=max(stream_time_ms, batch.latest),
            records=payload.num_rows,
            dropped_null_key=len(batch.arrived.keyless),
            dropped_late=int(np.count_nonzero(~batch.kept)),
        )

    def _stored(self, arrived: Arrived, side: int, store: StoreView) -> Stored:
        """The side's stored rows that records of the other side may match."""
        asking = np.flatnonzero(arrived.side != side)
        if not len(asking):
            return Stored.nothing()
        key, time = arrived.key[asking], arrived.time[asking]
        before, after = self._reach[1 - side]
        first = np.full(len(arrived.keys), np.iinfo(np.int64).max)
        last = np.full(len(arrived.keys), np.iinfo(np.int64).min)
        np.minimum.at(first, key, np.maximum(time - before, 0))
        np.maximum.at(last, key, time + after)
        wanted = np.flatnonzero(last >= 0)
        keys = arrived.keys.take(pa.array(wanted))
        ranges = ranges_of(side, keys, first[wanted], last[wanted])
        found, state_keys, rows = store.scan_apart(*ranges)
        times, numbers = places_of(state_keys)
        return Stored(wanted[np.array(found, np.int64)], times, numbers, rows)

    def _met(self, batch: _Batch, side: int, stored: Stored) -> Meetings:
        """The matches of the side's records; stored sources are numbered after the payload."""
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

    def _lonely(self, arrived: Arrived, met: tuple[Meetings, Meetings]) -> _Lonely:
        alone = self._outer[arrived.side]
        for each in met:
            alone[each.cause] = False
        if self._waiting is None:
            return _Lonely(np.flatnonzero(alone), np.flatnonzero(alone)[:0])
        after = np.array([after for _, after in self._reach])[arrived.side]
        over = arrived.time + after < arrived.now[arrived.at]
        return _Lonely(np.flatnonzero(alone & over), np.flatnonzero(alone & ~over))

    def _settled(
        self,
        batch: _Batch,
        stored: tuple[Stored, Stored],
        met: tuple[Meetings, Meetings],
        lonely: _Lonely,
        store: StoreView,
    ) -> Settled:
        """Settles the waiting rows, both stored ones and the batch's own."""
        if self._waiting is None:
            return Settled.nothing()
        arrived, own = batch.arrived, lonely.waiting
        until = np.full(len(arrived.at), NEVER)
        partners: dict[bytes, int] = {}
        for side, each in ((1, met[0]), (0, met[1])):
            if not self._outer[side]:
                continue
            new = each.arrival >= 0
            np.minimum.at(until, each.arrival[new], each.cause[new])
            old = _first_of(each.source[~new] - batch.rows, each.cause[~new])
            partners |= self._waiting.partners(side, arrived.keys, stored[side], old, store)
        sides, times = arrived.side[own], arrived.time[own]
        keys = arrived.keys.take(pa.array(arrived.key[own]))
        names = self._waiting.names(sides, keys, times, batch.number[own])
        new_ones = Alone(names, keys, sides, times, own, until[own], [])
        return self._waiting.settle(arrived, new_ones, partners, store)

    def _kept(self, batch: _Batch, settled: Settled) -> tuple[list[bytes], list[bytes]]:
        """State keys and rows of the records to keep, in key order."""
        arrived = batch.arrived
        place = arrived.place
        waiting = settled.of.since[settled.added]
        keys: list[bytes] = []
        rows: list[bytes] = []
        for side, encode in enumerate((self._pairs.left.encode, self._pairs.right.encode)):
            own = np.flatnonzero((arrived.side == side) & batch.kept)
            own = own[np.lexsort((arrived.time[own], arrived.key[own]))]
            named = arrived.keys.take(pa.array(arrived.key[own]))
            keys += row_keys(side, named, arrived.time[own], batch.number[own])
            rows += encode(batch.payload, place[own])
            own = np.flatnonzero(arrived.side[waiting] == side)
            if len(own):
                keys += [settled.of.names[n] for n in settled.added[own].tolist()]
                rows += encode(batch.payload, place[waiting[own]])
        return keys, rows

    def _expired(self, clock: Clock, store: StoreView, arrived: int) -> list[bytes]:
        limit = max(_EXPIRE_MIN, arrived)
        return [
            key
            for side in (0, 1)
            for key in expired_rows(store, side, clock.side(side) - self._retention_ms, limit)
        ]


@dataclass(frozen=True)
class _Lonely:
    """Records without partner: those emitted at once, and those that wait."""

    told: Rows
    waiting: Rows


def _first_of(rows: Rows, causes: Rows) -> tuple[Rows, Rows]:
    """Each distinct row, and the first of its causes."""
    order = np.lexsort((causes, rows))
    found, at = np.unique(rows[order], return_index=True)
    return found, causes[order][at]


class _Batch:
    """The records of a batch, and the stream times at each.

    Attributes:
        newest: by side, the newest time that the side has kept, at each record.
        kept: which records are not late for their side.
        number: each record's new row number.
        rows: the payload's rows.
        latest: the newest time of the payload, ms.
    """

    def __init__(self, payload: pa.Table, clock: Clock, retention_ms: int) -> None:
        self.payload, self.rows = payload, payload.num_rows
        self.arrived = arrived = Arrived.read(payload, clock.newest)
        self.latest = int(arrived.now[-1]) if len(arrived.now) else NO_TIME
        self.newest = tuple(arrived.newest(side, clock.side(side)) for side in (0, 1))
        own = np.where(arrived.side == 0, *self.newest)
        self.kept: npt.NDArray[np.bool_] = arrived.time > own - retention_ms
        self.number = clock.numbers(len(arrived.time))

    def advance(self, clock: Clock) -> None:
        """Advances the clock by the batch and stores it."""
        clock.advance(self.latest)
        for side in (0, 1):
            if len(self.newest[side]):
                clock.advance_side(side, int(self.newest[side][-1]))
        clock.store()


_NONE = -1  # no row, no key


class Results:
    """Collects the results kind by kind and puts them in order at the end.

    A row's source is its place in the payload or, counted on from the payload's end, among the
    stored rows of its side.
    """

    def __init__(self, payload: pa.Table, arrived: Arrived, stored: tuple[Stored, Stored]) -> None:
        self._payload, self._arrived = payload, arrived
        self._rows = tuple(list(side.rows) for side in stored)
        self._more_keys: list[pa.Array] = [arrived.keys]
        self._parts: list[tuple[Rows, Rows, Rows, Rows, Rows]] = []

    def add_told(self, settled: Settled) -> None:
        """Adds rows whose window has closed; these come first among the results of one cause."""
        if not len(settled.told):
            return
        of = settled.of
        since, side = of.since[settled.told], of.side[settled.told]
        new = since >= 0
        source, key = np.empty_like(since), np.empty_like(since)
        source[new] = self._arrived.place[since[new]]
        key[new] = self._arrived.key[since[new]]
        old = settled.told[~new]
        key[~new] = len(self._arrived.keys) + np.arange(len(old))
        self._more_keys.append(of.keys.take(pa.array(old)))
        for own in (0, 1):
            here = np.flatnonzero(~new & (side == own))
            first = self._payload.num_rows + len(self._rows[own])
            source[here] = first + np.arange(len(here))
            self._rows[own].extend(of.rows[n] for n in settled.told[here].tolist())
        self._add_single(settled.causes, key, side, source, of.time[settled.told])

    def add_met(self, met: tuple[Meetings, Meetings]) -> None:
        """Adds pairs, by the side of the record that caused them."""
        arrived, place = self._arrived, self._arrived.place
        for side, each in enumerate(met):
            own = place[each.cause]
            left, right = (own, each.source) if side == 0 else (each.source, own)
            time = np.maximum(each.time, arrived.time[each.cause])
            self._parts.append((arrived.at[each.cause], arrived.key[each.cause], left, right, time))

    def add_alone(self, records: Rows, outer: npt.NDArray[np.bool_]) -> None:
        """Adds records emitted at once: these, and keyless ones of a side that is `outer`."""
        arrived = self._arrived
        side, time = arrived.side[records], arrived.time[records]
        at, place = arrived.at[records], arrived.place[records]
        self._add_single(at, arrived.key[records], side, place, time)
        sides = self._payload[SIDE].to_numpy()[arrived.order[arrived.keyless]]
        at = arrived.keyless[outer[sides]]
        place = arrived.order[at]
        time = self._payload[TIMESTAMP].to_numpy()[place]
        self._add_single(at, np.full(len(at), _NONE), sides[outer[sides]], place, time)

    def emitted(self, pairs: Pairs) -> Emitted:
        """The sink's records, ordered by cause, then as they were added."""
        cause, key, left, right, time = (
            np.concatenate(columns) for columns in zip(*self._parts, strict=True)
        )
        if not len(cause):
            return Emitted([], [], [], [])
        order = np.argsort(cause, kind="stable")
        frame: dict[str, pa.Array] = {}
        sides = zip((pairs.left, pairs.right), self._rows, (left, right), strict=True)
        for side, rows, source in sides:
            at = _places(source[order])
            for name, kept in side.decode(rows).items():
                whole = pa.concat_arrays([one_array(self._payload[name]), kept])
                frame[name] = whole.take(at)
        keys = pa.concat_arrays(self._more_keys).to_pylist()
        at = _places(key[order])
        decoded = decode_keys(keys, pairs.key_columns)
        for column, values in zip(pairs.key_columns, decoded, strict=True):
            frame[column.name] = values.take(at)
        frame[ROWTIME] = pa.array(time[order])
        caused = self._arrived.order[cause[order]]
        sequence = self._payload[SEQUENCE].take(pa.array(caused))
        return pairs.of_frame(frame, pc.fill_null(sequence, 0).to_pylist())

    def _add_single(self, cause: Rows, key: Rows, side: Rows, source: Rows, time: Rows) -> None:
        left, right = np.where(side == 0, source, _NONE), np.where(side == 1, source, _NONE)
        self._parts.append((cause, key, left, right, time))


def _places(numbers: Rows) -> pa.Array:
    """Indices for `take`, null for none."""
    missing = numbers == _NONE
    return pa.array(numbers, mask=missing) if missing.any() else pa.array(numbers)
