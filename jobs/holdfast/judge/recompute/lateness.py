"""How many records may have come too late for their windows, by the input alone.

An engine that reads one topic partition far ahead of another makes records late that were not:
its own count of them then agrees with what its tables lack, and nothing else would tell.  So the
judge asks how late the input itself is when it is read in the order of its record times, all topic
partitions side by side, and how much that leaves to chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.judge.read.incarnations import by_age

__all__ = ["SLACK_MS", "ReadTimes", "late_most"]

SLACK_MS = 60_000
"""So far apart topic partitions may be read: a batch, and a broker that answers late."""

_Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReadTimes:
    """The records of a topic, each topic partition's in offset order; columns run in parallel.

    Attributes:
        partitions: of the topic, as numbers of `incarnations`.
        arrived: record times in ms.
        events: event times in ms.
    """

    partitions: _Times
    arrived: _Times
    events: _Times

    @staticmethod
    def of(rows: list[tuple[int, int, int]]) -> ReadTimes:
        """From (topic partition, record time, event time) each."""
        columns = np.array(rows, np.int64).reshape(-1, 3)
        return ReadTimes(columns[:, 0], columns[:, 1], columns[:, 2])


def late_most(read: ReadTimes, size_ms: int, advance_ms: int, grace_ms: int) -> int:
    """Records that may have come late, once for each window; more cannot have.

    A record counts where some record that was there no more than `SLACK_MS` after it closes the
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
    """When each is read: behind what is before it in its topic partition, whatever its time is,
    and behind all of a deleted topic that this one was made in the place of.
    """
    turns, floor = read.arrived.copy(), np.iinfo(np.int64).min
    for numbers in by_age(np.unique(read.partitions).tolist()):
        for partition in numbers:
            rows = np.flatnonzero(read.partitions == partition)
            turns[rows] = np.maximum(np.maximum.accumulate(turns[rows]), floor)
        floor = turns[np.isin(read.partitions, numbers)].max()
    return turns
