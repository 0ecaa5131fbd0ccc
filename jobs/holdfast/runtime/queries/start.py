"""The start of a query: commit markers decide it (ADR 2).

The position of a state partition is its own last commit marker, with an offset for every place
(source topic partition).  Two concurrent drivers may have left them apart in any way (ADR 37):

    state partition 0    p0: 160   p1: 100        the last commit of A
    state partition 1    p0: 100   p1: 200        the last commit of B
    target               p0: 160   p1: 200        the furthest offset of each place

Each is brought from its own offsets to the target; then all continue from there together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import ChangelogLost, DataLoss
from holdfast.state.changelog import CommitMarker
from holdfast.state.topics.source_progress import SourceProgress
from holdfast.types.ids import OffsetRange, Place

__all__ = ["Level", "SourceState", "StartPoint", "start_point", "stream_start"]

_Offsets = Mapping[Place, int]


@dataclass(frozen=True)
class SourceState:
    """The source topics as they are now.

    Attributes:
        initial: the start offsets of a query that never ran.
        first: log starts, the start offsets of new topic partitions of a query that ran.
        ids: the topic ids by topic; empty if unknown.
        fail_on_data_loss: refuse to continue if a topic was recreated.
    """

    initial: Mapping[Place, int]
    first: Mapping[Place, int]
    ids: Mapping[str, str]
    fail_on_data_loss: bool = True


@dataclass(frozen=True)
class Level:
    """The range that some state partitions lack.

    Attributes:
        beginners: those of them without a commit marker.
        planned: the range is a batch that another state partition has committed.
        watermark_ms: the watermark of that batch, see `tasks.plan.Batch`.
    """

    source: OffsetRange
    state_partitions: frozenset[int]
    beginners: frozenset[int]
    planned: bool
    watermark_ms: int | None = None


@dataclass(frozen=True)
class StartPoint:
    """The point from which all state partitions continue once they are level.

    Attributes:
        offsets: the start of the next batch.
        batch_id: the number of the next batch.
        levels: the ranges that state partitions need before.
        marked: the places that commit markers name.
        replaced: topic ids in commit markers whose topics no longer exist.
    """

    offsets: dict[Place, int]
    batch_id: int
    levels: tuple[Level, ...] = ()
    marked: frozenset[Place] = frozenset()
    replaced: frozenset[str] = frozenset()


def start_point(
    query_id: str,
    markers: Sequence[CommitMarker | None],
    sources: SourceState,
    group_offsets: _Offsets,
    *,
    rebuild: bool,
) -> StartPoint:
    """The start of a query from the commit markers of all its state partitions.

    Args:
        markers: one per state partition, None if nothing was committed.
        sources: the source topics, read after the markers.
        group_offsets: the offsets of the query's group, which never exceed the commits of any
            state partition.  They only reveal lost markers, and decide nothing else.
        rebuild: recompute state that the changelog has lost.

    Raises:
        ChangelogLost: commit markers, or the last of them, are gone.
        DataLoss: a source topic was recreated, and `fail.on.data.loss` is set.
    """
    known = {p: m for p, m in enumerate(markers) if m is not None}
    if not known:
        if any(group_offsets.values()) and not rebuild:
            raise _all_lost(query_id, group_offsets, "changelog")
        return StartPoint(dict(sources.initial), 0)
    gone = _replaced(query_id, [m.source for m in known.values()], sources)
    current = {p: marker.without(gone.keys()) for p, marker in known.items()}
    found = _Found(query_id, len(markers), current, sources)
    if not rebuild:
        found.refuse_losses(_without(group_offsets, gone.values()))
    leader = max(known.values(), key=lambda m: m.batch_id)
    return StartPoint(
        {**sources.first, **found.target},
        leader.batch_id + 1,
        found.levels(),
        frozenset(found.target),
        frozenset(gone),
    )


class _Found:
    """Evaluates all commit markers together; there is at least one."""

    def __init__(
        self, query_id: str, count: int, known: Mapping[int, CommitMarker], sources: SourceState
    ) -> None:
        self._query_id = query_id
        self._known = known
        self._initial = sources.initial
        self._first_of_new = sources.first
        self._ids = sources.ids
        self._ends = {p: marker.source.ends() for p, marker in known.items()}
        self._missing = [p for p in range(count) if p not in known]
        self._topics = [topic for m in known.values() for topic in m.source.topics]
        # The furthest offset of each place; below, its first offset, or the earliest known.
        self.target = _folded(self._ends.values(), max)
        origins = _folded((marker.origins() for marker in known.values()), min)
        starts = _folded((marker.source.starts() for marker in known.values()), min)
        self._begun = starts | origins
        self._origins_known = origins.keys() >= self.target.keys()

    def _beyond_first_batch(self) -> bool:
        """Whether every state partition has committed, without which there is no second batch."""
        if any(marker.batch_id > 0 for marker in self._known.values()):
            return True
        later = any(at > self._initial.get(place, at) for place, at in self._begun.items())
        return later and not self._origins_known

    def refuse_losses(self, group_offsets: _Offsets) -> None:
        """Raises `ChangelogLost` if a state partition has lost a commit marker."""
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
        return self._begun.get(place, self._first_of_new.get(place, 0))

    def levels(self) -> tuple[Level, ...]:
        """One `Level` for all state partitions that lack the same range."""
        markers = self._known.values()
        batches = [(m.source.starts(), m.source.ends()) for m in markers]
        watermarks = [m.watermark_ms for m in markers]
        apart: dict[tuple[tuple[Place, int], ...], set[int]] = {}
        for partition in (*self._known, *self._missing):
            own = self._own(partition)
            if own != self.target:
                apart.setdefault(tuple(sorted(own.items())), set()).add(partition)
        found = []
        for own_places, partitions in apart.items():
            own = dict(own_places)
            source = OffsetRange.over(self._topics, own, self.target, self._ids)
            beginners = frozenset(partitions.intersection(self._missing))
            planned = (own, self.target) in batches
            watermark_ms = watermarks[batches.index((own, self.target))] if planned else None
            found.append(Level(source, frozenset(partitions), beginners, planned, watermark_ms))
        return tuple(found)

    def _own(self, partition: int) -> dict[Place, int]:
        """A state partition's offsets; for a place it never read, the others' first offset."""
        if partition in self._ends:
            return self._begun | self._ends[partition]
        if self._origins_known or not self._beyond_first_batch():
            return self._begun
        return {p: min(self._initial.get(p, at), at) for p, at in self.target.items()}


def stream_start(
    query_id: str,
    markers: Mapping[Place, SourceProgress],
    sources: SourceState,
    group_offsets: _Offsets,
    *,
    rebuild: bool,
) -> StartPoint:
    """The start of a query without state.

    Args:
        markers: the commit markers by source topic partition; the rest as above.

    Raises:
        ChangelogLost: commit markers, or the last of them, are gone.
        DataLoss: the source topic was recreated, and `fail.on.data.loss` is set.
    """
    ranges = (
        OffsetRange.of(topic, {}, {p: m.offset}, m.topic_id) for (topic, p), m in markers.items()
    )
    gone = _replaced(query_id, ranges, sources)
    done = {place: m.offset for place, m in markers.items() if m.topic_id not in gone}
    shown = _without(group_offsets, gone.values())
    if not rebuild:
        if not markers and any(shown.values()):
            raise _all_lost(query_id, shown, "progress topic")
        # A version without topic ids committed group offsets before the marker.
        strict = any(marker.topic_id for marker in markers.values())
        first = sources.first if strict else sources.initial
        short = {
            p: (done.get(p), at) for p, at in shown.items() if done.get(p, first.get(p, 0)) < at
        }
        if short:
            raise _progress_lost(query_id, short)
    new = {p: at for p, at in sources.first.items() if p[0] in gone.values()}
    offsets = {**sources.initial, **new, **done}
    return StartPoint(offsets, 0, marked=frozenset(done), replaced=frozenset(gone))


def _replaced(
    query_id: str, committed: Iterable[OffsetRange], sources: SourceState
) -> dict[str, str]:
    """Topic ids in commit markers that topics no longer have, with those topics.

    Raises:
        DataLoss: there are some, and `fail.on.data.loss` is set.
    """
    old: dict[str, tuple[str, dict[Place, int]]] = {}
    taken_over = set()  # topics with which an earlier driver was allowed to continue
    for source, topic in ((each, topic) for each in committed for topic in each.topics):
        was, now = source.ids.get(topic, ""), sources.ids.get(topic, "")
        if was == now:
            taken_over.add(topic)
        elif was and now:
            ends = {place: at for place, at in source.ends().items() if place[0] == topic}
            old[was] = topic, _folded((ends, old[was][1] if was in old else {}), max)
    lost = {was: of for was, of in old.items() if of[0] not in taken_over}
    if lost and sources.fail_on_data_loss:
        raise _topic_replaced(query_id, lost, sources.ids)
    return {was: topic for was, (topic, _) in old.items()}


def _without(offsets: _Offsets, topics: Collection[str]) -> _Offsets:
    return {place: at for place, at in offsets.items() if place[0] not in topics}


def _folded(found: Iterable[_Offsets], pick: Callable[[int, int], int]) -> dict[Place, int]:
    result: dict[Place, int] = {}
    for offsets in found:
        for place, at in offsets.items():
            result[place] = pick(result.get(place, at), at)
    return result


_REPLACED = (
    "set fail.on.data.loss=false to keep the tables and add the new topic to them from its "
    "earliest offset; or start under another application.id to build the tables from the new topic "
    "alone."
)
_REBUILD = (
    "set on.changelog.loss=rebuild to recompute it from the source's earliest records; a later "
    "step of a statement needs a new application.id instead"
)


def _topic_replaced(
    query_id: str, old: Mapping[str, tuple[str, _Offsets]], ids: Mapping[str, str]
) -> DataLoss:
    told = "; ".join(
        f"{topic} had the id {was}, it has {ids[topic]} now, and {_told(ends)} of the former topic "
        "were committed"
        for was, (topic, ends) in old.items()
    )
    return DataLoss(
        f"{query_id}: a source topic was deleted and created again: {told}.",
        cause="it was recreated by hand, or the whole cluster was.",
        action=_REPLACED,
    )


def _all_lost(query_id: str, group_offsets: _Offsets, topic: str) -> ChangelogLost:
    return ChangelogLost(
        f"{query_id} has read up to {_told(group_offsets)}, but its {topic} holds no commit "
        "marker.",
        cause=f"the {topic} was deleted or replaced",
        action=f"restore the topic, or {_REBUILD}",
    )


def _marker_lost(query_id: str, missing: Sequence[int], target: _Offsets) -> ChangelogLost:
    which = ", ".join(map(str, missing))
    return ChangelogLost(
        f"{query_id}: state partition {which} has no commit marker, the others have committed up "
        f"to {_told(target)}.",
        cause=f"partition {which} of the changelog was emptied or replaced",
        action=f"restore the changelog, or {_REBUILD} (this state partition alone)",
    )


def _tail_lost(
    query_id: str, partition: int, short: Mapping[Place, tuple[int | None, int]]
) -> ChangelogLost:
    return ChangelogLost(
        f"{query_id}: state partition {partition} is behind what the query's consumer group "
        f"shows, which all state partitions had committed ({_compared(short)}).",
        cause="the changelog lost its tail (an unclean election, a restored disk), or the group's "
        "offsets were moved by hand",
        action="restore the changelog; or delete the group's offsets if they were moved by hand; "
        "or set on.changelog.loss=rebuild to read again the records that this partition lacks",
    )


def _progress_lost(query_id: str, short: Mapping[Place, tuple[int | None, int]]) -> ChangelogLost:
    return ChangelogLost(
        f"{query_id}: its progress topic is behind what its consumer group shows "
        f"({_compared(short)}).",
        cause="commit markers of the progress topic were deleted, or the group's offsets were "
        "moved by hand",
        action="restore the topic; or delete the group's offsets if they were moved by hand; or "
        "set on.changelog.loss=rebuild to read these records again and repeat them in the sink",
    )


def _told(offsets: _Offsets) -> str:
    return ", ".join(f"{topic}-{p}: {offset}" for (topic, p), offset in sorted(offsets.items()))


def _compared(short: Mapping[Place, tuple[int | None, int]]) -> str:
    return ", ".join(
        f"{topic}-{p}: committed {'nothing' if own is None else own}, shown {shown}"
        for (topic, p), (own, shown) in sorted(short.items())
    )
