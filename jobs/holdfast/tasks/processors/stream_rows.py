"""The rows of a stream-stream join by side, key and time, and those that wait for a partner."""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from holdfast.state.table_store import SIGN
from holdfast.tasks.keys import measured
from holdfast.tasks.processors.base import StoreView
from holdfast.tasks.processors.records import Overlay, Records
from holdfast.tasks.processors.stream_clock import FOREVER
from holdfast.types.topology import JoinKind, JoinStep, JoinWindow

__all__ = [
    "Orphans",
    "Reach",
    "StreamRows",
    "expire_rows",
    "places_of",
    "range_of",
    "reach_of",
    "retention_of",
    "row_keys",
]

_SIDES = (b"L", b"R")
_ORPHAN = b"O"
_PLACE = struct.Struct(">QQ")  # time with its sign turned, number
_NUMBER = struct.Struct(">Q")
_TIME = struct.Struct(">q")
_APART = (0, 1 << 61)  # the times of the sides' rows, so that each side's can be found alone
_EARLIEST = -(1 << 60)
_STORED = b""  # a row that is there, whatever it holds
Times = npt.NDArray[np.int64]
_Place = tuple[int, int]  # time in ms, number
Reach = tuple[tuple[int, int], tuple[int, int]]
_TAIL = np.dtype([("time", ">u8"), ("number", ">u8"), ("expires", ">i8")])
_DAY_MS = 86_400_000  # how late a record may be without GRACE PERIOD, as in ksqlDB
_Spans = tuple[dict[bytes, tuple[int, int]], dict[bytes, tuple[int, int]]]


def reach_of(step: JoinStep) -> Reach:
    """By side: how far back and on from a record its partners may be, ms.

    ksqlDB turns a right join round and keeps the window: BEFORE is then before the right
    record's time.
    """
    if step.window is None:
        raise TypeError(f"a {step.form} join has no window")
    pair = step.window.before_ms, step.window.after_ms
    back = pair[1], pair[0]
    return (back, pair) if step.kind is JoinKind.RIGHT else (pair, back)


def retention_of(window: JoinWindow) -> int:
    """How far behind the newest record of its side a row is kept, ms."""
    grace = _DAY_MS if window.grace_ms is None else window.grace_ms
    return window.before_ms + window.after_ms + grace


def range_of(side: int, key: bytes, first: int, last: int) -> tuple[bytes, bytes]:
    """Where a store has the side's rows of a key with `first <= time <= last` (ms, from 0)."""
    prefix = _row_key(side, key)
    return prefix + _PLACE.pack(first + SIGN, 0), prefix + _PLACE.pack(last + 1 + SIGN, 0)


def row_keys(side: int, keys: Sequence[bytes], times: Times, numbers: Times) -> list[bytes]:
    """The state keys of a side's rows of these keys, times (ms) and numbers."""
    tails = np.empty(len(keys), _TAIL)
    tails["time"] = times.astype(np.uint64) ^ np.uint64(SIGN)
    tails["number"] = numbers
    tails["expires"] = times + _APART[side]
    data, width = tails.tobytes(), _TAIL.itemsize
    return [_row_key(side, key) + data[n * width : (n + 1) * width] for n, key in enumerate(keys)]


def places_of(state_keys: Sequence[bytes]) -> tuple[Times, Times]:
    """Times in ms and numbers of rows, by their state keys."""
    tails = np.frombuffer(b"".join(key[-_TAIL.itemsize :] for key in state_keys), _TAIL)
    times = (tails["time"].astype(np.uint64) ^ np.uint64(SIGN)).astype(np.int64)
    return times, tails["number"].astype(np.int64)


def expire_rows(state: Overlay, store: StoreView, side: int, last: int) -> None:
    """Removes the side's rows up to this time (ms) that were there before the batch."""
    apart = _APART[side]
    for state_key in store.in_time(_EARLIEST + apart, last + 1 + apart):
        state.known(state_key, _STORED)
        state.put(state_key, None)


class StreamRows:
    """Each key's rows of the times that a batch can ask for."""

    def __init__(self, state: Overlay, store: StoreView, records: Records, reach: Reach) -> None:
        self._state = state
        spans = _spans(records, reach)
        self._rows = _read(0, spans[0], store), _read(1, spans[1], store)

    def between(self, side: int, key: bytes, first: int, last: int) -> list[tuple[_Place, bytes]]:
        """The side's rows of a key with `first <= time <= last`, by time and then number."""
        found = self._rows[side][key]
        low = bisect_left(found.places, (first, 0))
        high = bisect_left(found.places, (last + 1, 0), low)
        return list(zip(found.places[low:high], found.rows[low:high], strict=True))

    def add(self, side: int, key: bytes, place: _Place, row: bytes) -> None:
        """Keeps the row of a record of this time and number."""
        time, number = place
        state_key = _row_key(side, key) + _PLACE.pack(time + SIGN, number)
        state_key += _TIME.pack(time + _APART[side])
        self._state.known(state_key, None)
        self._state.put(state_key, row)
        if key in self._rows[side]:
            self._rows[side][key].add(place, row)


def _read(side: int, spans: dict[bytes, tuple[int, int]], store: StoreView) -> dict[bytes, _Timed]:
    keys = sorted(spans, key=lambda key: (len(key), key))
    found = store.scan_many([range_of(side, key, *spans[key]) for key in keys])
    rows: dict[bytes, _Timed] = {}
    for key, there in zip(keys, found, strict=True):
        timed = rows[key] = _Timed()
        for state_key, row in there:
            turned, number = _PLACE.unpack(state_key[-24:-8])
            timed.add((turned - SIGN, number), row)
    return rows


class _Timed:
    """Rows in the order of their times; of equal ones, as they came."""

    def __init__(self) -> None:
        self.places: list[_Place] = []
        self.rows: list[bytes] = []

    def add(self, place: _Place, row: bytes) -> None:
        at = bisect_left(self.places, place)
        self.places.insert(at, place)
        self.rows.insert(at, row)


def _row_key(side: int, key: bytes) -> bytes:
    return _SIDES[side] + measured(key)


def _spans(records: Records, reach: Reach) -> _Spans:
    """By side and key: from when to when the other side's records of the batch may ask."""
    spans: _Spans = ({}, {})
    for side, key, row, time, _ in records:
        if key is None or row is None:
            continue
        before, after = reach[side]
        first, last = max(time - before, 0), time + after
        span = spans[1 - side].get(key)
        if span is not None:
            first, last = min(first, span[0]), max(last, span[1])
        spans[1 - side][key] = (first, last)
    return spans


class Orphans:
    """Rows without partner whose window is open, oldest first.

    Args:
        waits: by side, how long after its time a row's window closes, ms.
        first: the side whose rows come second of equal times, as in Kafka Streams' store.
        newest: of the batch's times, ms: no window that closes later is asked for.
    """

    def __init__(
        self, store: tuple[Overlay, StoreView], waits: tuple[int, int], first: int, newest: int
    ) -> None:
        self._state, view = store
        self._waits, self._first = waits, first
        self._waiting: list[bytes] = []
        for key, row in view.scan(_ORPHAN, self._end(newest)):
            self._state.known(key, row)
            self._waiting.append(key)

    def add(self, side: int, key: bytes, place: _Place, row: bytes) -> None:
        """A row, of this time and number, that has found no partner."""
        orphan = self._key(side, key, place)
        self._state.known(orphan, None)
        self._state.put(orphan, row)
        insort(self._waiting, orphan)

    def drop(self, side: int, key: bytes, place: _Place) -> None:
        """The row of this time and number has a partner now."""
        orphan = self._key(side, key, place)
        if self._state.get(orphan) is not None:
            self._state.put(orphan, None)

    def closed(self, now: int) -> Iterator[tuple[int, bytes, bytes, int]]:
        """(side, key, row, time) of those whose window has closed at stream time `now`."""
        count = bisect_left(self._waiting, self._end(now))
        if not count:
            return
        due, self._waiting[:count] = self._waiting[:count], []
        for orphan in due:
            row = self._state.get(orphan)
            time = _NUMBER.unpack(orphan[1:9])[0] - SIGN
            side = self._first if orphan[9] else 1 - self._first
            if row is None:
                continue
            if time + self._waits[side] >= now:
                insort(self._waiting, orphan)
                continue
            self._state.put(orphan, None)
            yield side, orphan[10:-16], row, time

    def _key(self, side: int, key: bytes, place: _Place) -> bytes:
        rank = b"\x01" if side == self._first else b"\x00"
        time, number = place
        head = _ORPHAN + _NUMBER.pack(time + SIGN) + rank
        return head + key + _NUMBER.pack(number) + FOREVER

    def _end(self, now: int) -> bytes:
        return _ORPHAN + _NUMBER.pack(max(now - min(self._waits) + SIGN, 0))
