"""Where a query starts: the commit markers decide, Spark's checkpoint is scratch (ADR 2).

Each state partition is as far as its own last commit marker says, in every place (source topic
partition).  Two drivers that ran at once may have left them apart in any way (ADR 37):

    state partition 0    p0: 160   p1: 100        what A committed last
    state partition 1    p0: 100   p1: 200        what B committed last
    target               p0: 160   p1: 200        the furthest of all, place by place

Each is brought level from its own end to the target; then all go on from there together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import ChangelogLost
from holdfast.state.changelog import CommitMarker
from holdfast.types.ids import OffsetRange, Place

__all__ = ["Level", "StartPoint", "start_point", "stream_start"]

_Offsets = Mapping[Place, int]


@dataclass(frozen=True)
class Level:
    """What some state partitions lack.

    Attributes:
        beginners: those of them that have no commit marker.
        planned: this is a batch that another state partition committed, as it was planned.
    """

    source: OffsetRange
    state_partitions: frozenset[int]
    beginners: frozenset[int]
    planned: bool


@dataclass(frozen=True)
class StartPoint:
    """Where to go on, once every state partition is level.

    Attributes:
        offsets: where the next batch begins.
        batch_id: its number.
        levels: what to bring to which state partitions first.
        marked: the places that commit markers name.
    """

    offsets: dict[Place, int]
    batch_id: int
    levels: tuple[Level, ...] = ()
    marked: frozenset[Place] = frozenset()


def start_point(
    query_id: str,
    markers: Sequence[CommitMarker | None],
    initial: _Offsets,
    group_offsets: _Offsets,
    *,
    rebuild: bool,
) -> StartPoint:
    """The start of a query from the commit markers of all its state partitions.

    Args:
        markers: one per state partition, None where nothing was ever committed.
        initial: first offsets of a query that never ran.
        group_offsets: what the query's group shows: a place once all state partitions have
            committed it, and never further.  No source of progress, only an alarm.
        rebuild: compute anew what the changelog has lost.

    Raises:
        ChangelogLost: commit markers, or the last of them, are gone.
    """
    known = {p: m for p, m in enumerate(markers) if m is not None}
    if not known:
        if any(group_offsets.values()) and not rebuild:
            raise _all_lost(query_id, group_offsets, "changelog")
        return StartPoint(dict(initial), 0)
    found = _Found(query_id, len(markers), known, initial)
    if not rebuild:
        found.refuse_losses(group_offsets)
    leader = max(known.values(), key=lambda m: m.batch_id)
    offsets = {**initial, **found.target}
    return StartPoint(offsets, leader.batch_id + 1, found.levels(), frozenset(found.target))


class _Found:
    """Owns what the commit markers say together; there is one at least."""

    def __init__(
        self, query_id: str, count: int, known: Mapping[int, CommitMarker], initial: _Offsets
    ) -> None:
        self._query_id = query_id
        self._known = known
        self._initial = initial
        self._ends = {p: marker.source.end_places() for p, marker in known.items()}
        self._missing = [p for p in range(count) if p not in known]
        self._topics = [part.topic for m in known.values() for part in m.source.parts]
        # The furthest of each place, whoever has it; where it was begun, or the earliest known.
        self.target = _folded(self._ends.values(), max)
        origins = _folded((marker.origins() for marker in known.values()), min)
        starts = _folded((marker.source.start_places() for marker in known.values()), min)
        self._begun = starts | origins
        self._origins_known = origins.keys() >= self.target.keys()

    def _beyond_first_batch(self) -> bool:
        """Has every state partition committed at least once?  Only then is there a second batch."""
        if any(marker.batch_id > 0 for marker in self._known.values()):
            return True
        later = any(at > self._initial.get(place, at) for place, at in self._begun.items())
        return later and not self._origins_known

    def refuse_losses(self, group_offsets: _Offsets) -> None:
        """Raises `ChangelogLost`: a state partition has forgotten what it had committed."""
        shown = any(at > self._first(place) for place, at in group_offsets.items())
        if self._missing and (shown or self._beyond_first_batch()):
            raise _marker_lost(self._query_id, self._missing, self.target)
        for partition, ends in self._ends.items():
            short = {
                place: (ends.get(place), shown)
                for place, shown in group_offsets.items()
                if ends.get(place, self._first(place)) < shown
            }
            if short:
                raise _tail_lost(self._query_id, partition, short)

    def _first(self, place: Place) -> int:
        return self._begun.get(place, self._initial.get(place, 0))

    def levels(self) -> tuple[Level, ...]:
        """One for all state partitions that lack the same."""
        batches = [marker.source for marker in self._known.values()]
        apart: dict[tuple[tuple[Place, int], ...], set[int]] = {}
        for partition in (*self._known, *self._missing):
            own = self._own(partition)
            if own != self.target:
                apart.setdefault(tuple(sorted(own.items())), set()).add(partition)
        found = []
        for own_places, partitions in apart.items():
            source = OffsetRange.over(self._topics, dict(own_places), self.target)
            beginners = partitions.intersection(self._missing)
            found.append(
                Level(source, frozenset(partitions), frozenset(beginners), source in batches)
            )
        return tuple(found)

    def _own(self, partition: int) -> dict[Place, int]:
        """How far a state partition is; a place it never took in begins where others began it."""
        if partition in self._ends:
            return self._begun | self._ends[partition]
        if self._origins_known or not self._beyond_first_batch():
            return self._begun
        return {p: min(self._initial.get(p, at), at) for p, at in self.target.items()}


def stream_start(
    query_id: str,
    markers: _Offsets,
    initial: _Offsets,
    group_offsets: _Offsets,
    *,
    rebuild: bool,
) -> StartPoint:
    """The start of a query without state.

    Args:
        markers: offsets of the commit markers by source topic partition; the rest as above.

    Raises:
        ChangelogLost: commit markers, or the last of them, are gone.
    """
    if not rebuild:
        if not markers and any(group_offsets.values()):
            raise _all_lost(query_id, group_offsets, "progress topic")
        short = {
            place: (markers.get(place), shown)
            for place, shown in group_offsets.items()
            if markers.get(place, initial.get(place, 0)) < shown
        }
        if short:
            raise _progress_lost(query_id, short)
    return StartPoint({**initial, **markers}, 0, marked=frozenset(markers))


def _folded(found: Iterable[_Offsets], pick: Callable[[int, int], int]) -> dict[Place, int]:
    result: dict[Place, int] = {}
    for offsets in found:
        for place, at in offsets.items():
            result[place] = pick(result.get(place, at), at)
    return result


_REBUILD = (
    "set on.changelog.loss=rebuild to compute it again from the source's earliest records; a step "
    "after the first one of its statement needs a new application.id"
)


def _all_lost(query_id: str, group_offsets: _Offsets, topic: str) -> ChangelogLost:
    return ChangelogLost(
        f"{query_id} has read up to {_told(group_offsets)}, but its {topic} holds no commit "
        "marker.",
        cause=f"the {topic} was deleted or replaced",
        action=f"bring the topic back, or {_REBUILD}",
    )


def _marker_lost(query_id: str, missing: Sequence[int], target: _Offsets) -> ChangelogLost:
    which = ", ".join(map(str, missing))
    return ChangelogLost(
        f"{query_id}: state partition {which} has no commit marker, the others have committed up "
        f"to {_told(target)}.",
        cause=f"partition {which} of the changelog was emptied or replaced",
        action=f"bring the changelog back, or {_REBUILD} (this state partition alone)",
    )


def _tail_lost(
    query_id: str, partition: int, short: Mapping[Place, tuple[int | None, int]]
) -> ChangelogLost:
    return ChangelogLost(
        f"{query_id}: state partition {partition} is behind what the query's consumer group "
        f"shows, which all state partitions had committed ({_compared(short)}).",
        cause="the changelog lost its tail (an unclean election, a disk that was put back), or "
        "somebody moved the offsets of the group",
        action="bring the changelog back; or delete the group's offsets if they were moved by "
        "hand; or set on.changelog.loss=rebuild to read again what this state partition lacks",
    )


def _progress_lost(query_id: str, short: Mapping[Place, tuple[int | None, int]]) -> ChangelogLost:
    return ChangelogLost(
        f"{query_id}: its progress topic is behind what its consumer group shows "
        f"({_compared(short)}).",
        cause="commit markers of the progress topic were deleted, or somebody moved the offsets "
        "of the group",
        action="bring the topic back; or delete the group's offsets if they were moved by hand; "
        "or set on.changelog.loss=rebuild to read these again and repeat them in the sink",
    )


def _told(offsets: _Offsets) -> str:
    return ", ".join(f"{topic}-{p}: {offset}" for (topic, p), offset in sorted(offsets.items()))


def _compared(short: Mapping[Place, tuple[int | None, int]]) -> str:
    return ", ".join(
        f"{topic}-{p}: committed {'nothing' if own is None else own}, shown {shown}"
        for (topic, p), (own, shown) in sorted(short.items())
    )
