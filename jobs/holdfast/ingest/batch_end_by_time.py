"""Ends the batches of a lagging query so that no topic partition runs ahead in record time.

Windows close by the newest record read.  With batches cut by offsets alone, a topic partition with
few records a day would be days ahead of a busy one after one batch, and the busy one's records
would be late.  So, while the backlog exceeds a batch, a batch ends at the same record time in all
topic partitions of all sources: Kafka Streams achieves this by choosing the oldest record of its
queues, and Flink by watermark alignment.  It only queries the brokers' index of record times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.ingest.offsets import batch_end
from holdfast.types.ids import Place

__all__ = ["Level", "level_end"]

_ENOUGH = 0.75  # of the limit: a batch this full is not worth another query


@dataclass(frozen=True)
class Level:
    """The end of a batch.

    Attributes:
        end: the end offset by topic partition.
        time_ms: every topic partition is read up to this record time; None: the remaining records
            cannot be separated by time, so that one topic partition may be ahead of another.
    """

    end: dict[Place, int]
    time_ms: int | None


def level_end(
    start: Mapping[Place, int],
    bounds: Mapping[Place, tuple[int, int]],
    limit: int,
    newest_ms: int,
    first_at: Callable[[int], Mapping[Place, int]],
    guesses: Sequence[int] = (),
) -> Level:
    """The end of a batch of at most `limit` offsets, for a backlog of more.

    If more records than the limit have the same time, the batch ends among them.

    Args:
        start: next offset by topic partition; missing ones are new and begin at the log start.
        bounds: log start and end.
        newest_ms: later than every record.
        first_at: the first offset at or after a time in ms; omits places without one.
        guesses: times to try first.
    """
    begin = {place: max(start.get(place, low), low) for place, (low, _) in bounds.items()}
    before, after = 0, newest_ms
    best: Level | None = None
    beyond: dict[Place, int] | None = None  # the end offsets at `after`
    tries = list(reversed(guesses))
    while after - before > 1:
        time_ms = tries.pop() if tries else (before + after) // 2
        if not before < time_ms < after:
            continue
        found = first_at(time_ms)
        ends = {p: max(begin[p], min(found.get(p, high), high)) for p, (_, high) in bounds.items()}
        taken = sum(ends[place] - begin[place] for place in ends)
        if taken > limit:
            after, beyond = time_ms, ends
            continue
        before = time_ms
        best = Level({**start, **ends}, time_ms) if taken else best
        if best is not None and taken >= limit * _ENOUGH:
            return best
    if best is not None and beyond is not None:
        return best
    # The remaining records have one time, or precede records with a time in the future.
    ends = {place: high for place, (_, high) in bounds.items()} if beyond is None else beyond
    within = {place: (low, ends[place]) for place, (low, _) in bounds.items()}
    return Level(batch_end(start, within, limit), None if beyond is None else before)
