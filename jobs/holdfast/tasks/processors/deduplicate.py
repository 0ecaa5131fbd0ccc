"""A stream without its duplicates: each key at most once within any window of event time.

State: the times of emitted records, each under length and bytes of the key, the time in sort
order, and the time by which it expires: twice the window behind stream time it is not needed.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, insort

import pyarrow as pa

from holdfast.state.times import SIGN
from holdfast.tasks.evaluate.keys import measured, unmeasured
from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.tasks.processors.base import Changes, StoreView, TimedProcessor, Watermark
from holdfast.tasks.processors.pairs import key_arrays
from holdfast.tasks.processors.records import (
    Emitted,
    Overlay,
    Records,
    RowProcessor,
    Side,
    sink_rows,
)
from holdfast.types.statements.topology import DeduplicateStep, Query

__all__ = ["DeduplicateProcessor", "home_of"]

_ORDERED = struct.Struct(">Q")
_TIME = struct.Struct(">q")
_PASSED = b"\x01"


def home_of(state_key: bytes) -> bytes:
    """The key of an emitted record, from its state key."""
    return unmeasured(state_key[: -(_ORDERED.size + _TIME.size)])


class DeduplicateProcessor(RowProcessor, TimedProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        if not isinstance(query.step, DeduplicateStep):
            raise TypeError(f"{query.id} has no deduplicate step")
        self._within_ms = query.step.within_ms
        self._side = Side(query.step.input)
        self._sink = SinkRecords(query.sink)

    def process(
        self,
        payload: pa.Table,
        stream_time_ms: int,
        store: StoreView,
        watermark: Watermark | None = None,
    ) -> Changes:
        records = Records.read(payload, (self._side,))
        state = Overlay(store)
        passed = _Passed(state, store, {k for k in records.keys if k is not None})
        kept: list[int] = []
        late, now = 0, stream_time_ms
        for place, (_, key, _, time, _) in enumerate(records):
            now = max(now, time) if watermark is None else now
            if key is None:
                continue
            if time <= now - self._within_ms:
                late += 1
            elif passed.first(key, time, self._within_ms):
                kept.append(place)
        return self._emitted(records, kept).changes(
            state,
            records,
            stream_time_ms,
            dropped_null_key=records.keys.count(None),
            dropped_late=late,
        )

    def _emitted(self, records: Records, kept: list[int]) -> Emitted:
        rows = [records.rows[i] for i in kept]
        named = self._side.decode(rows)
        return sink_rows(
            self._sink,
            key_arrays([records.keys[i] for i in kept], self._side.keys),
            [named[c.name] for c in self._side.columns],
            [row is None for row in rows],
            ([records.times[i] for i in kept], [records.causes[i] for i in kept]),
        )


class _Passed:
    """The times at which records of each key were emitted."""

    def __init__(self, state: Overlay, store: StoreView, keys: set[bytes]) -> None:
        self._state = state
        prefixes = sorted((measured(key), key) for key in keys)
        found = store.scan_many([(prefix, prefix + b"\xff" * 17) for prefix, _ in prefixes])
        self._times = {
            key: [_TIME.unpack(state_key[-8:])[0] for state_key, _ in rows]
            for (_, key), rows in zip(prefixes, found, strict=True)
        }

    def first(self, key: bytes, time: int, within_ms: int) -> bool:
        """Whether no record of this key was emitted within the window; if so, adds this one."""
        times = self._times[key]
        at = bisect_left(times, time - within_ms + 1)
        if at < len(times) and times[at] < time + within_ms:
            return False
        insort(times, time)
        state_key = measured(key) + _ORDERED.pack(time + SIGN) + _TIME.pack(time)
        self._state.known(state_key, None)
        self._state.put(state_key, _PASSED)
        return True
