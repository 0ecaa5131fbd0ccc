"""Applies records one by one, yet in columns: round r takes each group's r-th record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.tasks.processors.aggregates.state import (
    HAS_NEW,
    HAS_OLD,
    Columns,
    StateColumns,
    chunk,
    pick,
)
from holdfast.tasks.processors.base import KEY, SIDE, arrival_order
from holdfast.types.columns.pieces import as_array
from holdfast.types.statements.topology import SEQUENCE, TIMESTAMP

__all__ = ["Groups", "Steps", "in_order", "order_of", "run", "running_time"]

Rows: TypeAlias = "npt.NDArray[np.int64]"


def in_order(payload: pa.Table, window: str | None) -> pa.Table:
    """Records with a key, in arrival order; the windows of one record ordered by start."""
    keyed = payload.filter(payload[KEY].is_valid())
    if window is not None and keyed.num_rows:
        keyed = keyed.sort_by(window)
    sides = pa.array(np.zeros(keyed.num_rows, np.int8))
    return keyed.take(arrival_order(keyed.append_column(SIDE, sides)))


def running_time(payload: pa.Table, stream_time_ms: int) -> Rows:
    """Stream time as each record of an ordered payload sees it, its own time included."""
    times = payload[TIMESTAMP].to_numpy()
    return np.maximum.accumulate(np.maximum(times, stream_time_ms)).astype(np.int64)


def order_of(records: pa.Table, rows: Rows) -> list[int]:
    """The sequence numbers of those records; empty if the payload has none."""
    sequence = records[SEQUENCE]
    if sequence.null_count:
        return []
    order: list[int] = sequence.take(pa.array(rows, pa.int64())).to_pylist()
    return order


@dataclass(frozen=True)
class Groups:
    """The records grouped by state key; groups are in the order of first arrival.

    Attributes:
        keys: the state key of each group.
        of: the group of each record.
        order: records ordered by group, then by arrival.
        starts: where in `order` each group starts.
        counts: how many records each group has; at least one.
    """

    keys: list[bytes]
    of: Rows
    order: Rows
    starts: Rows
    counts: Rows

    @staticmethod
    def by(keys: Sequence[bytes]) -> Groups:
        """The groups, given the state key of each record."""
        encoded = as_array(keys, pa.binary()).dictionary_encode()
        of = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return Groups.of_numbers(of, encoded.dictionary.to_pylist())

    @staticmethod
    def of_numbers(of: Rows, keys: list[bytes]) -> Groups:
        """The groups, given each record's place in `keys`."""
        counts = np.bincount(of, minlength=len(keys)).astype(np.int64)
        starts = np.cumsum(counts) - counts
        order = np.argsort(of, kind="stable").astype(np.int64)
        return Groups(keys, of, order, starts, counts)

    @property
    def last(self) -> Rows:
        """The last record of each group."""
        last: Rows = self.order[self.starts + self.counts - 1]
        return last

    @property
    def before(self) -> Rows:
        """The record before each record in its group, -1 for the first."""
        previous = np.full(len(self.of), -1, np.int64)
        follows = np.flatnonzero(self.of[self.order][1:] == self.of[self.order][:-1]) + 1
        previous[self.order[follows]] = self.order[follows - 1]
        return previous


@dataclass(frozen=True)
class Steps:
    """For each record, its group's state after it: columns, and the newest time in ms."""

    columns: Columns
    rowtime: Rows

    def take(self, records: Rows) -> Steps:
        return Steps([c.take(pa.array(records)) for c in self.columns], self.rowtime[records])


def run(
    state: StateColumns, groups: Groups, payload: pa.Table, old: Columns, rowtime: Rows
) -> Steps:
    """Applies all records and returns the state after each.

    Args:
        payload: in arrival order, one row per record.
        old: the state of each group before the batch, and its newest time (for a group without
            state any number below all times).
    """
    if not payload.num_rows:
        return Steps(old, rowtime)
    largest_first = np.argsort(-groups.counts, kind="stable")
    sizes = groups.counts[largest_first]
    rounds = [int(np.count_nonzero(sizes > r)) for r in range(int(sizes[0]))]
    places = [groups.starts[largest_first[:n]] + r for r, n in enumerate(rounds)]
    records = groups.order[np.concatenate(places)]
    ordered = payload.take(pa.array(records)).combine_chunks()
    current = [c.take(pa.array(largest_first)) for c in old]
    times, newest = ordered[TIMESTAMP].to_numpy(), rowtime[largest_first]
    columns: list[Columns] = []
    stamps: list[Rows] = []
    at = 0
    for n in rounds:
        part = ordered.slice(at, n)
        current = _apply(state, [c.slice(0, n) for c in current], part)
        state.check(current, chunk(part[KEY]))
        newest = np.maximum(newest[:n], times[at : at + n])
        columns.append(current)
        stamps.append(newest)
        at += n
    back = np.argsort(records)
    whole = [pa.concat_arrays(parts) for parts in zip(*columns, strict=True)]
    return Steps(whole, np.concatenate(stamps)).take(back)


def _apply(state: StateColumns, old: Columns, payload: pa.Table) -> Columns:
    if HAS_OLD not in payload.column_names:
        return state.merge(old, payload)
    undone = pick(old, state.undo(old, payload), payload[HAS_OLD].combine_chunks())
    return pick(undone, state.merge(undone, payload), payload[HAS_NEW].combine_chunks())
