"""Names of topics, transactional ids, groups and folders, which are only built here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

__all__ = [
    "SINK_OWNERS_TOPIC",
    "OffsetRange",
    "Place",
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


# The topic with the owner of each sink in the cluster.
SINK_OWNERS_TOPIC = "holdfast-sink-owners"


def changelog_topic(application_id: str, query_id: str) -> str:
    """The compacted changelog of a query, named as Kafka Streams names its own."""
    return f"{application_id}-{query_id}-changelog"


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


def insertions_topic(application_id: str) -> str:
    """The topic that records which INSERT INTO … VALUES a job has written."""
    return f"{application_id}-insertions"


def insertions_transactional_id(application_id: str) -> str:
    """The transactional id of the producer of INSERT INTO … VALUES."""
    return f"{application_id}-insertions"


def orders_topic(application_id: str) -> str:
    """The topic with a job's orders (PAUSE, TERMINATE) and the states of its queries."""
    return f"{application_id}-control"


def consumer_group(application_id: str, query_id: str) -> str:
    """The consumer group whose offsets show a query's progress to lag tools."""
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


@dataclass(frozen=True)
class OffsetRange:
    """Source offsets of one batch: per topic partition start (inclusive), end (exclusive).

    A query with several source topics has one range per topic: this is the first, `others` are the
    rest.  Offsets belong to a topic id, which changes if the topic is recreated; it is empty if
    unknown.
    """

    topic: str
    start: tuple[tuple[int, int], ...]  # (topic partition, offset), sorted
    end: tuple[tuple[int, int], ...]
    others: tuple[OffsetRange, ...] = ()
    topic_id: str = ""

    @staticmethod
    def of(
        topic: str, start: dict[int, int], end: dict[int, int], topic_id: str = ""
    ) -> OffsetRange:
        starts, ends = tuple(sorted(start.items())), tuple(sorted(end.items()))
        return OffsetRange(topic, starts, ends, topic_id=topic_id)

    @staticmethod
    def over(
        topics: Iterable[str],
        starts: Mapping[Place, int],
        ends: Mapping[Place, int],
        ids: Mapping[str, str] | None = None,
    ) -> OffsetRange:
        """A range over all of `topics` (at least one), in order; `ids` are by topic."""
        known = ids or {}
        first, *rest = (
            OffsetRange.of(t, _of_topic(starts, t), _of_topic(ends, t), known.get(t, ""))
            for t in dict.fromkeys(topics)
        )
        return replace(first, others=tuple(rest))

    @property
    def parts(self) -> tuple[OffsetRange, ...]:
        """One range per topic."""
        return (replace(self, others=()), *self.others)

    @property
    def ids(self) -> dict[str, str]:
        """The known topic ids, by topic."""
        return {part.topic: part.topic_id for part in self.parts if part.topic_id}

    def without(self, gone: Collection[str]) -> OffsetRange:
        """This range without the places of topics with one of these ids."""
        if not gone:
            return self
        left = [part if part.topic_id not in gone else OffsetRange.of(part.topic, {}, {})
                for part in self.parts]  # fmt: skip
        return replace(left[0], others=tuple(left[1:]))

    def after(self, last: OffsetRange | None) -> OffsetRange:
        """This range plus the places of `last` that it lacks, as empty ranges at their ends.

        So a batch that was planned before a topic partition was created does not undo its
        progress.
        """
        if last is None:
            return self
        starts, ends = self.start_places(), self.end_places()
        kept = {place: end for place, end in last.end_places().items() if place not in ends}
        ids = last.ids | self.ids
        if not kept and ids == self.ids:
            return self
        topics = [part.topic for part in (*self.parts, *last.parts)]
        return OffsetRange.over(topics, starts | kept, ends | kept, ids)

    def starts(self) -> dict[int, int]:
        """Start offsets of `topic` by topic partition, without `others`."""
        return dict(self.start)

    def ends(self) -> dict[int, int]:
        """End offsets of `topic` by topic partition, without `others`."""
        return dict(self.end)

    def start_places(self) -> dict[Place, int]:
        """Start offsets of all topics."""
        return {(part.topic, p): offset for part in self.parts for p, offset in part.start}

    def end_places(self) -> dict[Place, int]:
        """End offsets of all topics."""
        return {(part.topic, p): offset for part in self.parts for p, offset in part.end}

    @property
    def records_max(self) -> int:
        """The number of offsets in the range, an upper bound of its records (gaps count)."""
        starts = self.start_places()
        return sum(end - starts.get(place, end) for place, end in self.end_places().items())


def _of_topic(offsets: Mapping[Place, int], topic: str) -> dict[int, int]:
    return {p: offset for (of, p), offset in offsets.items() if of == topic}
