"""Names of topics, transactional ids, groups and folders, which are only built here."""

from __future__ import annotations

import re
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
    "dead_letter_replays_topic",
    "dead_letter_topic",
    "dead_letter_transactional_id",
    "driver_group",
    "insertions_topic",
    "insertions_transactional_id",
    "is_changelog",
    "orders_topic",
    "progress_topic",
    "query_of",
    "rescale_transactional_id",
    "stands_at",
    "state_name",
    "state_of",
    "state_transactional_id",
    "stream_transactional_id",
]


_GENERATION = re.compile(r"-g[1-9][0-9]*$")

# The topic with the owner of each sink in the cluster.
SINK_OWNERS_TOPIC = "holdfast-sink-owners"


def state_name(query_id: str, generation: int) -> str:
    """The name of a query's state: it is in the names of changelog, stores and producers.

    A rescale makes a new generation, with names of its own.  The first one is generation 0.
    """
    return f"{query_id}-g{generation}" if generation else query_id


def query_of(name: str) -> str:
    """The query id in a `state_name`."""
    return _GENERATION.sub("", name)


def changelog_topic(application_id: str, query_id: str, generation: int = 0) -> str:
    """The compacted changelog of a query, named as Kafka Streams names its own."""
    return f"{application_id}-{state_name(query_id, generation)}-changelog"


def state_of(changelog: str, application_id: str) -> str:
    """The `state_name` in the name of a changelog."""
    return changelog.removeprefix(f"{application_id}-").removesuffix("-changelog")


def is_changelog(topic: str, application_id: str, query_id: str) -> bool:
    """Whether a topic is a changelog of the query, of any generation."""
    name = state_of(topic, application_id)
    return topic == changelog_topic(application_id, name) and query_id in (name, query_of(name))


def progress_topic(application_id: str, query_id: str) -> str:
    """The topic with a query's progress by source topic partition, if no changelog has it."""
    return f"{application_id}-{query_id}-progress"


def compaction_topic(application_id: str) -> str:
    """The topic that records temporary settings of a job's changelogs until they are restored."""
    return f"{application_id}-compaction"


def compaction_transactional_id(application_id: str) -> str:
    """The transactional id of the producer that rolls changelog segments by aborted records."""
    return f"{application_id}-compaction"


def dead_letter_topic(application_id: str) -> str:
    """The topic for records that cannot be decoded, one per job."""
    return f"{application_id}-dead-letter"


def dead_letter_replays_topic(application_id: str) -> str:
    """The topic that records which dead letters were written to their source topics again."""
    return f"{application_id}-dead-letter-replays"


def dead_letter_transactional_id(application_id: str) -> str:
    """The transactional id of `holdfast dead-letters --replay`."""
    return f"{application_id}-dead-letter-replay"


def insertions_topic(application_id: str) -> str:
    """The topic that records which INSERT INTO … VALUES a job has written."""
    return f"{application_id}-insertions"


def insertions_transactional_id(application_id: str) -> str:
    """The transactional id of the producer of INSERT INTO … VALUES."""
    return f"{application_id}-insertions"


def orders_topic(application_id: str) -> str:
    """The topic with a job's orders (PAUSE, TERMINATE) and the states of its queries."""
    return f"{application_id}-control"


def driver_group(application_id: str) -> str:
    """The consumer group whose one member is the job's driver; it reads nothing."""
    return f"{application_id}-driver"


def consumer_group(application_id: str, query_id: str) -> str:
    """The consumer group whose offsets show a query's progress to lag tools."""
    return f"{application_id}-{query_id}"


def state_transactional_id(
    application_id: str, query_id: str, state_partition: int, generation: int = 0
) -> str:
    """The transactional id of one state partition's producer."""
    return f"{application_id}-{state_name(query_id, generation)}-{state_partition}"


def rescale_transactional_id(
    application_id: str, query_id: str, generation: int, share: int
) -> str:
    """The transactional id of the producer that copies a share into a new generation."""
    return f"{application_id}-{state_name(query_id, generation)}-copy-{share}"


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
        ids: the known topic ids, by topic.  Offsets belong to a topic id; a topic that is recreated
            has another one.
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
        """This range plus the places of `last` that it lacks, as empty ranges at their ends.

        So a batch that was planned before a topic partition was created does not undo its
        progress.
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
        """Start offsets of the places that have one."""
        return {place: s.start for place, s in self.items() if s.start is not None}

    def ends(self) -> dict[Place, int]:
        """End offsets of all places."""
        return {place: span.end for place, span in self.items()}

    @property
    def records_max(self) -> int:
        """The number of offsets in the range, an upper bound of its records (gaps count)."""
        return sum(s.end - s.start for s in self.values() if s.start is not None)


def stands_at(source: OffsetRange) -> OffsetRange:
    """The empty range at the end of this one."""
    ends = source.ends()
    return OffsetRange.over(source.topics, ends, ends, source.ids)


def _places(topic: str, offsets: Mapping[int, int]) -> dict[Place, int]:
    return {(topic, p): offset for p, offset in offsets.items()}
