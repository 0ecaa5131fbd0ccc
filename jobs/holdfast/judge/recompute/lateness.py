"""A bound on the records that can be late for their windows, from the input alone.

An engine that reads one topic partition far ahead of another makes records late that were on time.
Its own count of late records then agrees with what its tables lack, and nothing else shows the
error.  So the judge computes how late the input is when it is read in the order of its record
times, all topic partitions side by side, with an allowance for chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.judge.read.incarnations import by_age

__all__ = ["SLACK_MS", "ReadTimes", "late_most"]

SLACK_MS = 60_000
"""How far apart topic partitions may be read: a batch, and a broker that answers late."""

_Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReadTimes:
    """The records of a topic, each topic partition's in offset order; columns run in parallel.

    Attributes:
        partitions: partition numbers (see `incarnations`).
        arrived: record times in ms.
        events: event times in ms.
    """

    partitions: _Times
    arrived: _Times
    events: _Times

    @staticmethod
    def of(rows: list[tuple[int, int, int]]) -> ReadTimes:
        """From tuples of (topic partition, record time, event time)."""
        columns = np.array(rows, np.int64).reshape(-1, 3)
        return ReadTimes(columns[:, 0], columns[:, 1], columns[:, 2])


def late_most(read: ReadTimes, size_ms: int, advance_ms: int, grace_ms: int) -> int:
    """An upper bound on the late records, counted once for each window.

    A record counts when another record closes its window and came no more than `SLACK_MS` after it.
    window.
    """
    if not len(read.events):
        return 0
    turns = _turns(read)
    order = np.argsort(turns, kind="stable")
    newest = np.maximum.accumulate(read.events[order])
    there = np.searchsorted(turns[order], turns + SLACK_MS, side="right") - 1
    now = newest[there]
    last_start = read.events // advance_ms * advance_ms
    late = 0
    for before in range(-(-size_ms // advance_ms)):
        end = last_start - before * advance_ms + size_ms
        late += int(np.count_nonzero((end > read.events) & (end + grace_ms <= now)))
    return late


def _turns(read: ReadTimes) -> _Times:
    """When each record is read: after its predecessors in its topic partition, whatever its own
    time, and after all records of the deleted topic that its topic replaced.
    """
    turns, floor = read.arrived.copy(), np.iinfo(np.int64).min
    for numbers in by_age(np.unique(read.partitions).tolist()):
        for partition in numbers:
            rows = np.flatnonzero(read.partitions == partition)
            turns[rows] = np.maximum(np.maximum.accumulate(turns[rows]), floor)
        floor = turns[np.isin(read.partitions, numbers)].max()
    return turns
