"""Where a batch ends while its query is behind, so that no topic partition runs ahead in time.

Windows close by the newest record that was read.  Read by offsets alone, a topic partition with few
records a day would be days ahead of a busy one after one batch, and the busy one's records would be
late.  So, as long as there is more than a batch takes, it ends in all topic partitions of all
sources at the same record time: what Kafka Streams gets from choosing the oldest record of its
queues, and Flink from aligning watermarks.  Only the brokers' index of record times is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.ingest.offsets import batch_end
from holdfast.types.ids import Place

__all__ = ["Level", "level_end"]

_ENOUGH = 0.75  # of the limit: a batch this full is not worth another question


@dataclass(frozen=True)
class Level:
    """The end of a batch.

    Attributes:
        end: by topic partition.
        time_ms: every topic partition is read up to this record time; None: nothing parts the
            records that are left by their time, so that one may be ahead of another.
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
    """Where a batch of at most `limit` offsets ends, of more than that.

    Of records of one time that are more than the limit, as many as a batch may have.

    Args:
        start: next offset by topic partition; those it lacks are new, they begin at their start.
        bounds: log start and end.
        newest_ms: no record is that new.
        first_at: the first offset at or after a time in ms; a place without one is left out.
        guesses: times to try first.
    """
    begin = {place: max(start.get(place, low), low) for place, (low, _) in bounds.items()}
    before, after = 0, newest_ms
    best: Level | None = None
    beyond: dict[Place, int] | None = None  # the ends at `after`
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
    # All that is left is of one time, or stays behind records of a time that is yet to come.
    ends = {place: high for place, (_, high) in bounds.items()} if beyond is None else beyond
    within = {place: (low, ends[place]) for place, (low, _) in bounds.items()}
    return Level(batch_end(start, within, limit), None if beyond is None else before)
