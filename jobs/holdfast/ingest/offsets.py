"""The start and end of batches: pure arithmetic on offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from holdfast.errors import DataLoss
from holdfast.types.ids import Place

__all__ = [
    "WAYS_OUT",
    "Bounds",
    "Offsets",
    "batch_end",
    "check_available",
]

WAYS_OUT = (
    "restore the topic; or set fail.on.data.loss=false to continue from the earliest offset left "
    "(tables then miss the lost records); or start under another application.id to build the "
    "tables from the records that the topic still holds."
)

Offsets = dict[int, int]
Bounds = Mapping[int, tuple[int, int]]
_At = TypeVar("_At", int, Place)  # a topic partition of one topic, or of several


def batch_end(
    start: Mapping[_At, int], bounds: Mapping[_At, tuple[int, int]], limit: int | None
) -> dict[_At, int]:
    """The end of a batch from `start`, never before its start.

    Args:
        start: next offset by topic partition; missing ones are new and begin at the log start.
        bounds: log start and end by topic partition.
        limit: the most offsets to take over all topic partitions, None for no limit.
    """
    begin = {p: start.get(p, low) for p, (low, _) in bounds.items()}
    # Records that retention has deleted do not count for the shares.
    first = {p: max(begin[p], low) for p, (low, _) in bounds.items()}
    backlog = {p: max(0, high - first[p]) for p, (_, high) in bounds.items()}
    share = _shares(backlog, limit)
    ends = {p: first[p] + share[p] if share[p] else begin[p] for p in bounds}
    return {**start, **ends}


def _shares(backlog: Mapping[_At, int], limit: int | None) -> dict[_At, int]:
    """Splits `limit` in proportion to the backlogs, rounding by largest remainder."""
    total = sum(backlog.values())
    if limit is None or total <= limit:
        return dict(backlog)
    share = {p: limit * size // total for p, size in backlog.items()}
    by_remainder = sorted(backlog, key=lambda p: (-(limit * backlog[p] % total), p))
    for p in by_remainder[: limit - sum(share.values())]:
        share[p] += 1
    return share


def check_available(topic: str, start: Mapping[int, int], bounds: Bounds) -> None:
    """Checks that all records from `start` on are still available.

    Raises:
        DataLoss: an offset is before its log's start or beyond its end, or its topic partition is
            gone; the error names each one.
    """
    lost = [_loss(p, offset, bounds.get(p)) for p, offset in sorted(start.items())]
    named = [text for text in lost if text]
    if named:
        raise DataLoss(
            f"Topic {topic} no longer has offsets that are to be read: {'; '.join(named)}.",
            cause="retention or delete-records removed them before they were read, or the topic "
            "was deleted and created again.",
            action=WAYS_OUT,
        )


def _loss(partition: int, wanted: int, found: tuple[int, int] | None) -> str:
    if found is None:
        return f"partition {partition}: wanted {wanted}, but the partition is gone"
    low, high = found
    if low <= wanted <= high:
        return ""
    return f"partition {partition}: wanted {wanted}, available {low} to {high} (exclusive)"
