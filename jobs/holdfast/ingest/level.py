"""Where a batch over several topics ends, so that none of them runs ahead in event time.

A join drops what comes too late by the stream time of both sides.  Read by offsets alone, a side
with few records a day would be days ahead after one batch.  So, as long as there is more than a
batch takes, it ends in all topic partitions at the same record time: what Kafka Streams gets from
choosing the oldest record of its queues.  Only the brokers' index of record times is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from holdfast.types.ids import Place

__all__ = ["level_end"]

_ENOUGH = 0.75  # of the limit: a batch this full is not worth another question


def level_end(
    start: Mapping[Place, int],
    bounds: Mapping[Place, tuple[int, int]],
    limit: int,
    newest_ms: int,
    first_at: Callable[[int], Mapping[Place, int]],
    guesses: Sequence[int] = (),
) -> tuple[int, dict[Place, int]] | None:
    """The record time in ms where a batch of at most `limit` offsets ends, and the ends.

    Args:
        start: next offset by topic partition; those it lacks are new, they begin at their start.
        bounds: log start and end.
        newest_ms: no record is that new.
        first_at: the first offset at or after a time in ms; a place without one is left out.
        guesses: times to try first.

    Returns:
        None where no time parts the records so: a batch by offsets alone has to do.
    """
    begin = {place: max(start.get(place, low), low) for place, (low, _) in bounds.items()}
    before, after = 0, newest_ms
    best: tuple[int, dict[Place, int]] | None = None
    tries = list(reversed(guesses))
    while after - before > 1:
        time_ms = tries.pop() if tries else (before + after) // 2
        if not before < time_ms < after:
            continue
        found = first_at(time_ms)
        ends = {p: max(begin[p], min(found.get(p, high), high)) for p, (_, high) in bounds.items()}
        taken = sum(ends[place] - begin[place] for place in ends)
        if taken > limit:
            after = time_ms
            continue
        before = time_ms
        best = (time_ms, {**start, **ends}) if taken else best
        if taken >= limit * _ENOUGH:
            break
    return best
