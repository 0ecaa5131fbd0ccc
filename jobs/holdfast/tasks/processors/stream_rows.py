"""The rows of a stream-stream join by side, key and time, and those that wait for a partner."""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Iterator

from holdfast.tasks.processors.base import StoreView
from holdfast.tasks.processors.records import Overlay, Records
from holdfast.tasks.processors.stream_clock import FOREVER

__all__ = ["Orphans", "StreamRows"]

_SIDES = (b"L", b"R")
_ORPHAN = b"O"
_LENGTH = struct.Struct(">I")
_PLACE = struct.Struct(">QQ")  # time with its sign turned, number
_NUMBER = struct.Struct(">Q")
_TIME = struct.Struct(">q")
_APART = (0, 1 << 61)  # the times of the sides' rows, so that each side's can be found alone
_EARLIEST = -(1 << 60)
_STORED = b""  # a row that is there, whatever it holds
_SIGN = 1 << 63
_Place = tuple[int, int]  # time in ms, number
_Reach = tuple[tuple[int, int], tuple[int, int]]
_Spans = tuple[dict[bytes, tuple[int, int]], dict[bytes, tuple[int, int]]]


class StreamRows:
    """Each key's rows of the times that a batch can ask for, read when it is first asked for."""

    def __init__(self, state: Overlay, store: StoreView, records: Records, reach: _Reach) -> None:
        self._state, self._store = state, store
        self._wanted = _spans(records, reach)
        self._rows: tuple[dict[bytes, _Timed], dict[bytes, _Timed]] = ({}, {})

    def between(self, side: int, key: bytes, first: int, last: int) -> list[tuple[_Place, bytes]]:
        """The side's rows of a key with `first <= time <= last`, by time and then number."""
        found = self._rows[side].get(key)
        if found is None:
            found = self._rows[side][key] = self._read(side, key)
        low = bisect_left(found.places, (first, 0))
        high = bisect_left(found.places, (last + 1, 0), low)
        return list(zip(found.places[low:high], found.rows[low:high], strict=True))

    def add(self, side: int, key: bytes, place: _Place, row: bytes) -> None:
        """Keeps the row of a record of this time and number."""
        time, number = place
        state_key = _row_key(side, key) + _PLACE.pack(time + _SIGN, number)
        state_key += _TIME.pack(time + _APART[side])
        self._state.known(state_key, None)
        self._state.put(state_key, row)
        if key in self._wanted[side]:
            found = self._rows[side].get(key)
            if found is None:
                found = self._rows[side][key] = self._read(side, key)
            found.add(place, row)

    def expire(self, side: int, last: int) -> None:
        """Removes the side's rows up to this time."""
        apart = _APART[side]
        for state_key in self._store.in_time(_EARLIEST + apart, last + 1 + apart):
            self._state.known(state_key, _STORED)
            self._state.put(state_key, None)

    def _read(self, side: int, key: bytes) -> _Timed:
        span = self._wanted[side].get(key)
        timed = _Timed()
        if span is not None:
            prefix = _row_key(side, key)
            start = prefix + _PLACE.pack(span[0] + _SIGN, 0)
            end = prefix + _PLACE.pack(span[1] + 1 + _SIGN, 0)
            for state_key, row in self._store.scan(start, end):
                turned, number = _PLACE.unpack(state_key[-24:-8])
                timed.add((turned - _SIGN, number), row)
        return timed


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
    return _SIDES[side] + _LENGTH.pack(len(key)) + key


def _spans(records: Records, reach: _Reach) -> _Spans:
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
            time = _NUMBER.unpack(orphan[1:9])[0] - _SIGN
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
        head = _ORPHAN + _NUMBER.pack(time + _SIGN) + rank
        return head + key + _NUMBER.pack(number) + FOREVER

    def _end(self, now: int) -> bytes:
        return _ORPHAN + _NUMBER.pack(max(now - min(self._waits) + _SIGN, 0))
