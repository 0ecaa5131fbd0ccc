"""Two streams joined within a time window, by the rules of Kafka Streams.

State, all under state keys that end in eight bytes by which they can be found in time:

    L or R, length and bytes of the key, time, number, time of its side    a record's row
    O, time, side, key, number, no time                                    one without partner yet
    T, no time                                                             what `Clock` holds

Rows of a side are seen, and kept, for as long as they are newer than that side's own newest record
less before + after + grace, as Kafka Streams' window stores show them.  Stream time, which both
sides move, says nothing of that; so the rows are removed here and not by the state task.

With GRACE PERIOD a row without partner waits under `O` until its window has closed, and is
emitted by the next record that is the newest so far.  Without it is emitted at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from holdfast.tasks.processors.base import Changes, StoreView
from holdfast.tasks.processors.pairs import Pair, Pairs
from holdfast.tasks.processors.records import Overlay, Records, RowProcessor
from holdfast.tasks.processors.stream_clock import Clock
from holdfast.tasks.processors.stream_rows import (
    Orphans,
    StreamRows,
    expire_rows,
    reach_of,
    retention_of,
)
from holdfast.types.topology import JoinKind, JoinStep, JoinWindow, Query

__all__ = ["StreamStreamProcessor"]


class StreamStreamProcessor(RowProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        step = query.step
        if not isinstance(step, JoinStep) or step.window is None:
            raise TypeError(f"{query.id} has no join step with a window")
        self._step, self._window = step, step.window
        self._pairs = Pairs(step, query.sink)

    @property
    def windowed(self) -> bool:
        return True

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        records = Records.read(payload, (self._pairs.left, self._pairs.right))
        batch = _Batch(self._step, self._window, Overlay(store), records, store)
        pairs = [pair for record in records for pair in batch.join(*record)]
        batch.end()
        emitted = self._pairs.of_stream(pairs)
        return emitted.changes(
            batch.state,
            records,
            stream_time_ms,
            dropped_null_key=batch.null_keys,
            dropped_late=batch.late,
        )


class _Batch:
    """One batch's way through the records."""

    def __init__(
        self,
        step: JoinStep,
        window: JoinWindow,
        state: Overlay,
        records: Records,
        store: StoreView,
    ) -> None:
        self.state = state
        self.null_keys = self.late = 0
        self._outer = (
            step.kind in (JoinKind.LEFT, JoinKind.FULL),
            step.kind in (JoinKind.RIGHT, JoinKind.FULL),
        )
        self._reach = reach_of(step)
        self._retention_ms = retention_of(window)
        self._clock = Clock(state)
        self._rows = StreamRows(state, store, records, self._reach)
        self._store = store
        self._orphans = None
        if window.grace_ms is not None and any(self._outer):
            waits = tuple(after + window.grace_ms for _, after in self._reach)
            latest = max(records.times, default=self._clock.newest)
            first = 1 if step.kind is JoinKind.RIGHT else 0
            self._orphans = Orphans((state, store), (waits[0], waits[1]), first, latest)

    def join(
        self, side: int, key: bytes | None, row: bytes | None, time: int, cause: int
    ) -> Iterator[Pair]:
        """What one record gives."""
        self._clock.advance(time)
        if row is None:
            return
        if key is None:
            self.null_keys += 1
            if self._outer[side]:
                yield _alone(side, None, row, time, cause)
            return
        if self._orphans is not None and time == self._clock.newest:
            yield from self._closed(cause)
        place = time, self._clock.number()
        yield from self._partners(side, key, row, place, cause)
        self._keep(side, key, row, place)

    def end(self) -> None:
        """Puts what the next batch must know into the state, and removes what it will not see."""
        for side in (0, 1):
            expire_rows(self.state, self._store, side, self._clock.side(side) - self._retention_ms)
        self._clock.store()

    def _partners(
        self, side: int, key: bytes, row: bytes, place: tuple[int, int], cause: int
    ) -> Iterator[Pair]:
        time = place[0]
        before, after = self._reach[side]
        seen = self._clock.side(1 - side) - self._retention_ms + 1
        found = self._rows.between(1 - side, key, max(time - before, 0, seen), time + after)
        for found_place, other in found:
            if self._orphans is not None:
                self._orphans.drop(1 - side, key, found_place)
            left, right = (row, other) if side == 0 else (other, row)
            yield Pair(key, left, right, max(time, found_place[0]), cause)
        if found or not self._outer[side]:
            return
        if self._orphans is None or time + after < self._clock.newest:
            yield _alone(side, key, row, time, cause)
        else:
            self._orphans.add(side, key, place, row)

    def _keep(self, side: int, key: bytes, row: bytes, place: tuple[int, int]) -> None:
        time = place[0]
        self._clock.advance_side(side, time)
        if time <= self._clock.side(side) - self._retention_ms:
            self.late += 1
        else:
            self._rows.add(side, key, place, row)

    def _closed(self, cause: int) -> Iterator[Pair]:
        if self._orphans is not None:
            for side, key, row, time in self._orphans.closed(self._clock.newest):
                yield _alone(side, key, row, time, cause)


def _alone(side: int, key: bytes | None, row: bytes, time: int, cause: int) -> Pair:
    left, right = (row, None) if side == 0 else (None, row)
    return Pair(key, left, right, time, cause)
