"""The sessions of a whole batch at once: by key and time, cut where nothing came for the gap.

Within a batch nothing is late and no order of arrival changes a session's bounds, so a sort does
what `session_plan` does record by record.  Only keys that have stored sessions near need a look
at each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.tasks.processors.aggregate_state import chunk
from holdfast.tasks.processors.base import KEY, StoreView
from holdfast.tasks.processors.session_plan import bounds_of, key_range, session_state_key
from holdfast.types.topology import TIMESTAMP, Window

__all__ = ["Clusters", "Stored"]

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stored:
    """Sessions of before the batch that take part in it."""

    keys: list[bytes]
    rows: list[bytes]


@dataclass(frozen=True)
class Clusters:
    """The sessions that a batch's records are in.

    Attributes:
        keys, starts, ends: of each session, with what was stored.
        of: the session of each record, -1: it is late.
        parents: of a session the stored ones that are now in it, by time; none for most.
        last: the last record of each session.
    """

    keys: list[bytes]
    starts: Rows
    ends: Rows
    of: Rows
    parents: dict[int, list[int]]
    last: Rows
    stored: Stored

    @property
    def state_keys(self) -> list[bytes]:
        bounds = zip(self.keys, self.starts.tolist(), self.ends.tolist(), strict=True)
        return [session_state_key(*each) for each in bounds]

    @staticmethod
    def of_batch(
        records: pa.Table, window: Window, stream_time_ms: int, store: StoreView
    ) -> Clusters:
        """From records with keys, in order of arrival, and the stream time before them."""
        encoded = chunk(records[KEY]).dictionary_encode()
        keys: list[bytes] = encoded.dictionary.to_pylist()
        of_key = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        raw = _cut(of_key, records[TIMESTAMP].to_numpy(), window.size_ms)
        merge = _Merge(window, stream_time_ms, keys, raw)
        merge.with_stored(store)
        return merge.clusters()


@dataclass(frozen=True)
class _Raw:
    """Clusters of the batch alone, by key and time; `of` tells each record's."""

    key: Rows
    starts: Rows
    ends: Rows
    of: Rows


def _cut(of_key: Rows, times: Rows, gap_ms: int) -> _Raw:
    order = np.lexsort((times, of_key))
    key, time = of_key[order], times[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (key[1:] != key[:-1]) | (time[1:] - time[:-1] > gap_ms)
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(order)) - 1 if len(first) else first
    of = np.empty(len(order), np.int64)
    of[order] = np.cumsum(new) - 1
    return _Raw(key[first], time[first], time[last], of)


def _near(keys: Rows, starts: Rows, ends: Rows, gap_ms: int) -> Rows:
    """Numbers sessions, which come by key and start, so that those within the gap have the same."""
    times, rank = np.unique(ends, return_inverse=True)
    # The newest end so far of each key: later keys have greater numbers whatever their ends are.
    latest = np.maximum.accumulate(keys * len(times) + rank.reshape(-1)) % max(len(times), 1)
    new = np.ones(len(keys), np.bool_)
    new[1:] = (keys[1:] != keys[:-1]) | (starts[1:] - times[latest[:-1]] > gap_ms)
    group: Rows = np.cumsum(new) - 1
    return group


class _Merge:
    """Takes the stored sessions into the clusters that they are near to."""

    def __init__(
        self, window: Window, stream_time_ms: int, keys: Sequence[bytes], raw: _Raw
    ) -> None:
        self._gap = window.size_ms
        self._close = stream_time_ms - window.size_ms - window.grace_ms
        self._oldest = stream_time_ms - window.retention_ms + 1
        self._keys, self._raw = keys, raw
        self._starts, self._ends = raw.starts.copy(), raw.ends.copy()
        self._into = np.arange(len(raw.key))  # the cluster that each one is part of
        self._parents: dict[int, list[int]] = {}
        self._stored = Stored([], [])

    def with_stored(self, store: StoreView) -> None:
        key, starts, ends, found = self._read(store)
        count = len(self._raw.key)
        keys = np.concatenate([self._raw.key, key])
        starts = np.concatenate([self._raw.starts, starts])
        ends = np.concatenate([self._raw.ends, ends])
        order = np.lexsort((ends, starts, keys))
        group = _near(keys[order], starts[order], ends[order], self._gap)
        first = np.flatnonzero(np.diff(group, prepend=-1))
        if not len(key):
            return
        size = np.diff(np.append(first, len(order)))
        of_batch = np.add.reduceat((order < count).astype(np.int64), first)
        mixed = np.flatnonzero((of_batch > 0) & (of_batch < size))
        numbers, at = order.tolist(), zip(first[mixed].tolist(), size[mixed].tolist(), strict=True)
        heads = [self._group(numbers[place : place + n], found) for place, n in at]
        self._starts[heads] = starts[order[first[mixed]]]
        self._ends[heads] = np.maximum.reduceat(ends[order], first)[mixed]

    def _read(self, store: StoreView) -> tuple[Rows, Rows, Rows, list[tuple[bytes, bytes]]]:
        """Stored sessions that a batch may reach: keys, starts, ends, and they themselves.

        Those that a key had before are further from its records than the gap, and from each other.
        """
        order = sorted(range(len(self._keys)), key=self._keys.__getitem__)
        edges = np.searchsorted(self._raw.key, np.arange(len(self._keys)))
        oldest = np.maximum(self._raw.starts[edges] - self._gap, self._oldest).tolist()
        scans = store.scan_many([key_range(self._keys[n], oldest[n]) for n in order])
        key = np.repeat(np.array(order, np.int64), [len(rows) for rows in scans])
        found = [each for rows in scans for each in rows]
        return key, *bounds_of([state_key for state_key, _ in found]), found

    def _group(self, near: list[int], found: Sequence[tuple[bytes, bytes]]) -> int:
        """Makes those one session, and tells which: stored ones count on from the clusters."""
        count = len(self._raw.key)
        clusters = [n for n in near if n < count]
        first = clusters[0]
        if len(clusters) > 1:
            self._into[clusters] = first
        keys, rows = self._stored.keys, self._stored.rows
        known = len(keys)
        for n in near:
            if n >= count:
                keys.append(found[n - count][0])
                rows.append(found[n - count][1])
        self._parents[first] = list(range(known, len(keys)))
        return first

    def clusters(self) -> Clusters:
        """What is left of them, numbered anew."""
        kept = np.flatnonzero(
            (self._into == np.arange(len(self._into))) & (self._ends >= self._close)
        )
        number = np.full(len(self._into) + 1, -1, np.int64)
        number[kept] = np.arange(len(kept))
        of = number[self._into[self._raw.of]] if len(self._raw.of) else self._raw.of
        last = np.full(len(kept), -1, np.int64)
        live = np.flatnonzero(of >= 0)
        np.maximum.at(last, of[live], live)
        return Clusters(
            [self._keys[k] for k in self._raw.key[kept].tolist()],
            self._starts[kept],
            self._ends[kept],
            of,
            {int(number[c]): p for c, p in self._parents.items() if number[c] >= 0},
            last,
            self._stored,
        )
