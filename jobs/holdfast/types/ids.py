"""Names that must be made in one place only: topics, transactional ids, groups, folders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "SINK_OWNERS_TOPIC",
    "OffsetRange",
    "Place",
    "Span",
    "changelog_topic",
    "compaction_topic",
    "compaction_transactional_id",
    "consumer_group",
    "dead_letter_topic",
    "insertions_topic",
    "insertions_transactional_id",
    "orders_topic",
    "progress_topic",
    "state_transactional_id",
    "stream_transactional_id",
]


# Where the whole cluster keeps which query writes which sink.
SINK_OWNERS_TOPIC = "holdfast-sink-owners"


def changelog_topic(application_id: str, query_id: str) -> str:
    """The compacted changelog of a query, named as Kafka Streams names its own."""
    return f"{application_id}-{query_id}-changelog"


def progress_topic(application_id: str, query_id: str) -> str:
    """Where a query keeps how far it is in a source topic partition, if no changelog says so."""
    return f"{application_id}-{query_id}-progress"


def compaction_topic(application_id: str) -> str:
    """Where temporary settings of a job's changelogs are written down until they are put back."""
    return f"{application_id}-compaction"


def compaction_transactional_id(application_id: str) -> str:
    """Of the producer whose aborted records roll segments of the job's changelogs."""
    return f"{application_id}-compaction"


def dead_letter_topic(application_id: str) -> str:
    """Where records that cannot be decoded go, one topic per job."""
    return f"{application_id}-dead-letter"


def insertions_topic(application_id: str) -> str:
    """Where a job keeps which INSERT INTO … VALUES it has written."""
    return f"{application_id}-insertions"


def insertions_transactional_id(application_id: str) -> str:
    """Of the producer that writes them."""
    return f"{application_id}-insertions"


def orders_topic(application_id: str) -> str:
    """Where a job keeps what its queries were told (PAUSE, TERMINATE), and what they do."""
    return f"{application_id}-control"


def consumer_group(application_id: str, query_id: str) -> str:
    """The group whose offsets show a query's progress to ordinary lag tools."""
    return f"{application_id}-{query_id}"


def state_transactional_id(application_id: str, query_id: str, state_partition: int) -> str:
    """The transactional id of one state partition's producer."""
    return f"{application_id}-{query_id}-{state_partition}"


def stream_transactional_id(
    application_id: str, query_id: str, topic: str, topic_partition: int
) -> str:
    """The transactional id of a stateless query's producer for one source topic partition."""
    return f"{application_id}-{query_id}-{topic}-{topic_partition}"


Place = tuple[str, int]  # (source topic, topic partition)


class Span(NamedTuple):
    """Offsets of one place; `start` is inclusive, `end` exclusive.

    A place without a start is new: it joins a batch with nothing of it taken.
    """

    start: int | None
    end: int


@dataclass(frozen=True)
class OffsetRange(Mapping[Place, Span]):
    """Source offsets of one batch: the span of each place, by topic and topic partition.

    Attributes:
        topics: in the order in which the query reads them; one may have no place.
        spans: by place.
        ids: the known topic ids, by topic.  Offsets belong to a topic id; a topic that is made
            again has another one.
    """

    topics: tuple[str, ...]
    spans: Mapping[Place, Span]
    ids: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(
        topic: str, start: Mapping[int, int], end: Mapping[int, int], topic_id: str = ""
    ) -> OffsetRange:
        """A range over one topic, by topic partition."""
        starts, ends = _places(topic, start), _places(topic, end)
        return OffsetRange.over([topic], starts, ends, {topic: topic_id})

    @staticmethod
    def over(
        topics: Iterable[str],
        starts: Mapping[Place, int],
        ends: Mapping[Place, int],
        ids: Mapping[str, str] | None = None,
    ) -> OffsetRange:
        """A range over the places of `ends` that are of `topics`."""
        names = tuple(dict.fromkeys(topics))
        spans = {p: Span(starts.get(p), ends[p]) for p in sorted(ends) if p[0] in names}
        known = {topic: at for topic, at in (ids or {}).items() if at and topic in names}
        return OffsetRange(names, spans, known)

    def __getitem__(self, place: Place) -> Span:
        return self.spans[place]

    def __iter__(self) -> Iterator[Place]:
        return iter(self.spans)

    def __len__(self) -> int:
        return len(self.spans)

    def without(self, gone: Collection[str]) -> OffsetRange:
        """This range without the places of topics that have one of these ids."""
        ids = {topic: topic_id for topic, topic_id in self.ids.items() if topic_id not in gone}
        lost = self.ids.keys() - ids.keys()
        return OffsetRange(self.topics, {p: s for p, s in self.items() if p[0] not in lost}, ids)

    def after(self, last: OffsetRange | None) -> OffsetRange:
        """This range and, standing still at their end, the places of `last` that it lacks.

        Progress is merged: a batch that was planned before a topic partition was made says nothing
        of it, and takes nothing back.
        """
        if last is None:
            return self
        kept = {place: span.end for place, span in last.items() if place not in self}
        ids = {**last.ids, **self.ids}
        if not kept and ids == self.ids:
            return self
        topics = (*self.topics, *last.topics)
        return OffsetRange.over(topics, self.starts() | kept, self.ends() | kept, ids)

    def starts(self) -> dict[Place, int]:
        """Where each place starts that has a start."""
        return {place: s.start for place, s in self.items() if s.start is not None}

    def ends(self) -> dict[Place, int]:
        """Where each place ends."""
        return {place: span.end for place, span in self.items()}

    @property
    def records_max(self) -> int:
        """Offsets in the range: an upper bound of its records (gaps count)."""
        return sum(s.end - s.start for s in self.values() if s.start is not None)


def _places(topic: str, offsets: Mapping[int, int]) -> dict[Place, int]:
    return {(topic, p): offset for p, offset in offsets.items()}
