"""The sessions of a whole batch at once: records by key and time, cut at gaps of inactivity.

Within a batch no record is late and arrival order does not change a session's bounds, so a sort
does what `session_plan` does record by record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.tasks.evaluate.keys import numbered
from holdfast.tasks.processors.aggregates.state import chunk
from holdfast.tasks.processors.base import KEY, StoreView
from holdfast.tasks.processors.sessions.plan import bounds_of, key_ranges, session_state_keys
from holdfast.types.statements.topology import TIMESTAMP, Window

__all__ = ["Clusters", "Stored"]

Rows: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class Stored:
    """Stored sessions, by key and time.

    Attributes:
        names: the sessions' state keys.
        rows: the sessions' rows.
        key: each session's place in `Clusters.keys`.
        starts, ends: ms.
        owner: the session of `Clusters` that each has merged into; -1 for none.
    """

    names: list[bytes]
    rows: list[bytes]
    key: Rows
    starts: Rows
    ends: Rows
    owner: Rows

    def taken(self, owner: Rows) -> Stored:
        """The stored sessions that have an owner."""
        at = np.flatnonzero(owner >= 0)
        places = at.tolist()
        return Stored(
            [self.names[n] for n in places],
            [self.rows[n] for n in places],
            self.key[at],
            self.starts[at],
            self.ends[at],
            owner[at],
        )


@dataclass(frozen=True)
class Clusters:
    """The sessions that a batch's records are in, by key and time.

    Attributes:
        keys: the distinct keys (BINARY), in the order of the store.
        key, starts, ends: of each session, including stored ones; `key` is a place in `keys`.
        of: the session of each record, -1 for a late record.
        last: the last record of each session.
        stored: the sessions from before the batch that have merged into these.
    """

    keys: pa.Array
    key: Rows
    starts: Rows
    ends: Rows
    of: Rows
    last: Rows
    stored: Stored

    @property
    def state_keys(self) -> list[bytes]:
        """The state keys of the sessions, ascending."""
        return session_state_keys(self.keys.take(pa.array(self.key)), self.starts, self.ends)

    @property
    def stays(self) -> npt.NDArray[np.bool_]:
        """Which of `stored` keep their bounds, and so their state key."""
        owner, stored = self.stored.owner, self.stored
        same = (stored.starts == self.starts[owner]) & (stored.ends == self.ends[owner])
        found: npt.NDArray[np.bool_] = same
        return found

    @staticmethod
    def of_batch(
        records: pa.Table, window: Window, stream_time_ms: int, store: StoreView
    ) -> Clusters:
        """The sessions of records with keys in arrival order, given stream time before them."""
        keys, of_key = numbered(chunk(records[KEY]))
        raw = _cut(of_key, records[TIMESTAMP].to_numpy(), window.size_ms)
        oldest = stream_time_ms - window.retention_ms + 1
        stored = _read(keys, raw, (window.size_ms, oldest), store)
        whole = _merged(keys, raw, stored, window.size_ms)
        return whole.open(stream_time_ms - window.size_ms - window.grace_ms)

    def open(self, close_ms: int) -> Clusters:
        """Drops sessions that end before `close_ms`: their records are late, stored rows stay."""
        kept = np.flatnonzero(self.ends >= close_ms)
        number = np.full(len(self.ends) + 1, -1, np.int64)  # the last one for -1
        number[kept] = np.arange(len(kept))
        of = number[self.of]
        last = np.full(len(kept), -1, np.int64)
        live = np.flatnonzero(of >= 0)
        np.maximum.at(last, of[live], live)
        stored = self.stored.taken(number[self.stored.owner])
        key, starts, ends = self.key[kept], self.starts[kept], self.ends[kept]
        return Clusters(self.keys, key, starts, ends, of, last, stored)


@dataclass(frozen=True)
class _Raw:
    """Clusters of the batch alone, by key and time; `of` is each record's cluster."""

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


def _read(keys: pa.Array, raw: _Raw, reach: tuple[int, int], store: StoreView) -> Stored:
    """Stored sessions that a batch may touch.

    A key's older sessions are further than the gap from its records, and from each other.

    Args:
        reach: the gap, and how old a session's end may be, ms.
    """
    gap_ms, oldest_ms = reach
    edges = np.searchsorted(raw.key, np.arange(len(keys)))
    from_ms = np.maximum(raw.starts[edges] - gap_ms, oldest_ms)
    numbers, names, rows = store.scan_apart(*key_ranges(keys, from_ms))
    key = np.array(numbers, np.int64)
    starts, ends = bounds_of(names)
    return Stored(names, rows, key, starts, ends, np.full(len(key), -1))


def _merged(keys: pa.Array, raw: _Raw, stored: Stored, gap_ms: int) -> Clusters:
    """Merges the batch's clusters and stored sessions that are within the gap of each other."""
    count = len(raw.key)
    key = np.concatenate([raw.key, stored.key])
    starts = np.concatenate([raw.starts, stored.starts])
    ends = np.concatenate([raw.ends, stored.ends])
    order = np.lexsort((ends, starts, key))
    group = np.empty(len(order), np.int64)
    group[order] = _near(key[order], starts[order], ends[order], gap_ms)
    touched = np.unique(group[:count])
    number = np.full(len(order) + 1, -1, np.int64)
    number[touched] = np.arange(len(touched))
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    latest = np.maximum.reduceat(ends[order], first) if len(first) else first
    heads = order[first[touched]]
    owner = number[group[count:]]
    in_session = number[group[:count]]
    of = in_session[raw.of] if count else raw.of
    none = np.array([], np.int64)
    found = Stored(stored.names, stored.rows, stored.key, stored.starts, stored.ends, owner)
    return Clusters(keys, key[heads], starts[heads], latest[touched], of, none, found)


def _near(keys: Rows, starts: Rows, ends: Rows, gap_ms: int) -> Rows:
    """Numbers sessions, given by key and start; sessions within the gap get the same number."""
    times, rank = np.unique(ends, return_inverse=True)
    # The newest end so far of each key: a later key has greater numbers, whatever its ends.
    latest = np.maximum.accumulate(keys * len(times) + rank.reshape(-1)) % max(len(times), 1)
    new = np.ones(len(keys), np.bool_)
    new[1:] = (keys[1:] != keys[:-1]) | (starts[1:] - times[latest[:-1]] > gap_ms)
    group: Rows = np.cumsum(new) - 1
    return group
