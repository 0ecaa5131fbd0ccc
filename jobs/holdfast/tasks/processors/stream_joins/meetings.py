"""The matches of a stream-stream join, found in whole columns sorted by key and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.tasks.evaluate.keys import numbered
from holdfast.tasks.processors.base import KEY, SIDE, arrival_order
from holdfast.tasks.processors.records import one_array
from holdfast.types.statements.topology import TIMESTAMP, TOMBSTONE

__all__ = ["Arrived", "Kept", "Meetings", "Rows", "Stored", "meetings"]

Rows: TypeAlias = "npt.NDArray[np.int64]"
_SPAN_MS = 1 << 38  # nine years: millions of keys times this many ms fit into 64 bits


@dataclass(frozen=True)
class Arrived:
    """A payload's records in arrival order.

    `order` and `now` include the records without key or value, all others do not.

    Attributes:
        order: the payload row of each record.
        now: the newest time so far at each of `order`, ms.
        at: each record's place in `order`.
        keys: the distinct keys (BINARY), by length and then bytewise.
        side, key, time: of each record; `key` is a place in `keys`, `time` in ms.
        keyless: places in `order` of the records with a value and no key.
    """

    order: Rows
    now: Rows
    at: Rows
    keys: pa.Array
    side: Rows
    key: Rows
    time: Rows
    keyless: Rows

    @staticmethod
    def read(payload: pa.Table, newest_ms: int) -> Arrived:
        """Reads a payload of rows (`base.row_schema`), given the newest time before the batch."""
        order = arrival_order(payload)
        valued = ~payload[TOMBSTONE].to_numpy()[order]
        keyed = payload[KEY].is_valid().to_numpy()[order]
        times = payload[TIMESTAMP].to_numpy()[order]
        at = np.flatnonzero(valued & keyed)
        keys, key = numbered(one_array(payload[KEY]).take(pa.array(order[at])))
        return Arrived(
            order,
            np.maximum.accumulate(np.maximum(times, newest_ms)),
            at,
            keys,
            payload[SIDE].to_numpy()[order[at]].astype(np.int64),
            key,
            times[at],
            np.flatnonzero(valued & ~keyed),
        )

    @property
    def place(self) -> Rows:
        """The payload row of each record."""
        return self.order[self.at]

    def newest(self, side: int, before_ms: int) -> Rows:
        """The newest time of a side at each record, given the newest one before the batch."""
        own = np.where(self.side == side, self.time, before_ms)
        return np.maximum.accumulate(np.maximum(own, before_ms)).astype(np.int64)


@dataclass(frozen=True)
class Stored:
    """Rows of a side from before the batch; `key` is a place in `Arrived.keys`, `time` in ms."""

    key: Rows
    time: Rows
    number: Rows
    rows: list[bytes]

    @staticmethod
    def nothing() -> Stored:
        """No rows."""
        none = np.array([], np.int64)
        return Stored(none, none, none, [])


@dataclass(frozen=True)
class Kept:
    """Rows of one side that may match, in no order.

    Attributes:
        key: a place in `Arrived.keys`.
        time: ms.
        number: orders rows of equal time by arrival.
        arrival: the row's record in the batch, -1 for a stored row.
        source: where the row's columns are.
    """

    key: Rows
    time: Rows
    number: Rows
    arrival: Rows
    source: Rows

    def sorted(self) -> Kept:
        order = np.lexsort((self.number, self.time, self.key))
        fields = (self.key, self.time, self.number, self.arrival, self.source)
        return Kept(*(field[order] for field in fields))


@dataclass(frozen=True)
class Meetings:
    """Matches: the cause (a record of the batch), and the matched row's fields (see `Kept`)."""

    cause: Rows
    source: Rows
    time: Rows
    arrival: Rows

    @staticmethod
    def nothing() -> Meetings:
        """No matches."""
        none = np.array([], np.int64)
        return Meetings(none, none, none, none)


def meetings(key: Rows, cause: Rows, first: Rows, last: Rows, rows: Kept) -> Meetings:
    """The rows that records match: same key, `first <= time <= last` (ms), arrived before them.

    Ordered by cause as given, then by time and number.
    """
    if not len(cause) or not len(rows.key):
        return Meetings.nothing()
    rows = rows.sorted()
    low, counts = _of_key(key, rows)
    if counts.sum() > 2 * (len(key) + len(rows.key)):  # scanning all rows of a key is slower
        low, counts = _in_time(key, first, last, rows)
    starts = np.cumsum(counts) - counts
    met = np.arange(counts.sum()) + np.repeat(low - starts, counts)
    of = np.repeat(np.arange(len(cause)), counts)
    times, causes = rows.time[met], cause[of]
    there = (rows.arrival[met] < causes) & (first[of] <= times) & (times <= last[of])
    met = met[there]
    return Meetings(causes[there], rows.source[met], times[there], rows.arrival[met])


def _of_key(key: Rows, rows: Kept) -> tuple[Rows, Rows]:
    """Where the rows of each key begin, and how many there are."""
    each = np.bincount(rows.key, minlength=int(key.max()) + 1)
    return (np.cumsum(each) - each)[key], each[key]


def _in_time(key: Rows, first: Rows, last: Rows, rows: Kept) -> tuple[Rows, Rows]:
    """Where rows of each key with `first <= time <= last` (ms) begin, and how many there are."""
    (times, first, after), width = _ranked(rows.time, first, last + 1)
    # One number per key and time.
    ranked = rows.key * width + times
    low = np.searchsorted(ranked, key * width + first)
    return low, np.maximum(np.searchsorted(ranked, key * width + after) - low, 0)


def _ranked(times: Rows, *asked: Rows) -> tuple[list[Rows], int]:
    """Ranks of the times from 0, ranks of the times asked for (the next there is); how many ranks.

    There must be at least one time.
    """
    least, most = int(times.min()), int(times.max())
    if most - least < _SPAN_MS:
        return [np.clip(t - least, 0, most - least + 1) for t in (times, *asked)], most - least + 2
    known = np.unique(times)
    return [np.searchsorted(known, t) for t in (times, *asked)], len(known) + 1
