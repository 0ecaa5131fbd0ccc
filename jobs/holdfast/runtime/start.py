"""Where a query starts: the commit markers decide, Spark's checkpoint is scratch (ADR 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import ChangelogLost, OffsetOverlap
from holdfast.state.changelog import CommitMarker
from holdfast.types.ids import OffsetRange, Place

__all__ = ["StartPoint", "start_point", "stream_start"]


@dataclass(frozen=True)
class StartPoint:
    """`offsets` to go on from, once the batch `level` (if any) has been brought to everybody.

    `level` is a batch that some state partitions committed and others did not before the last
    driver died; `watermark_ms` is that batch's, as it was committed.
    """

    offsets: dict[Place, int]
    batch_id: int
    level: OffsetRange | None
    watermark_ms: int | None = None


def start_point(
    query_id: str,
    markers: Sequence[CommitMarker | None],
    initial: Mapping[Place, int],
    group_offsets: Mapping[Place, int],
    *,
    rebuild: bool,
) -> StartPoint:
    """The start of a query from the commit markers of all its state partitions.

    Args:
        markers: one per state partition, None where nothing was ever committed.
        initial: first offsets of a query that never ran.
        group_offsets: what the query's group shows; never a source of progress, only an alarm.
        rebuild: start anew where the changelog was lost.

    Raises:
        ChangelogLost: the group has progressed, the changelog knows nothing of it.
        OffsetOverlap: the markers are more than one batch apart.
    """
    known = [m for m in markers if m is not None]
    if not known:
        if any(group_offsets.values()) and not rebuild:
            raise _lost(query_id, group_offsets, "changelog")
        return StartPoint(dict(initial), 0, None)
    leader = max(known, key=lambda m: (sum(m.source.end_places().values()), m.batch_id))
    behind = [m for m in markers if m is None or m.source != leader.source]
    for marker in behind:
        _check_one_batch(query_id, marker, leader)
    offsets = {**initial, **leader.source.end_places()}
    level = leader.source if behind else None
    return StartPoint(offsets, leader.batch_id + 1, level, leader.watermark_ms)


def stream_start(
    query_id: str,
    markers: Mapping[Place, int],
    initial: Mapping[Place, int],
    group_offsets: Mapping[Place, int],
    *,
    rebuild: bool,
) -> StartPoint:
    """The start of a query without state.

    Args:
        markers: offsets of the commit markers by source topic partition; the rest as above.

    Raises:
        ChangelogLost: the group has progressed, the progress topic knows nothing of it.
    """
    if not markers and any(group_offsets.values()) and not rebuild:
        raise _lost(query_id, group_offsets, "progress topic")
    return StartPoint({**initial, **markers}, 0, None)


def _check_one_batch(query_id: str, marker: CommitMarker | None, leader: CommitMarker) -> None:
    if marker is None:
        return
    ends, starts = marker.source.end_places(), leader.source.start_places()
    apart = {p: (ends[p], start) for p, start in starts.items() if ends.get(p, start) != start}
    if apart:
        raise OffsetOverlap(
            f"{query_id}: state partition {marker.state_partition} has committed up to "
            f"{_told(ends)}, state partition {leader.state_partition} started its last batch at "
            f"{_told(starts)}.",
            cause="a changelog partition was replaced or lost its tail",
            action="restore the changelog topic, or start under a new application.id",
        )


def _told(offsets: Mapping[Place, int]) -> str:
    return ", ".join(f"{topic}-{p}: {offset}" for (topic, p), offset in sorted(offsets.items()))


def _lost(query_id: str, group_offsets: Mapping[Place, int], topic: str) -> ChangelogLost:
    return ChangelogLost(
        f"{query_id} has read up to {_told(group_offsets)}, but its {topic} holds no commit "
        "marker.",
        cause=f"the {topic} was deleted or replaced",
        action="bring the topic back, or set on.changelog.loss=rebuild to compute everything "
        "again from the source's earliest records; a step after the first one of its statement "
        "needs a new application.id",
    )
