"""Names that must be made in one place only: topics, transactional ids, groups, folders."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "OffsetRange",
    "changelog_topic",
    "compaction_topic",
    "compaction_transactional_id",
    "consumer_group",
    "dead_letter_topic",
    "progress_topic",
    "state_transactional_id",
    "stream_transactional_id",
]


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


@dataclass(frozen=True)
class OffsetRange:
    """Source offsets of one batch: per topic partition start (inclusive), end (exclusive)."""

    topic: str
    start: tuple[tuple[int, int], ...]  # (topic partition, offset), sorted
    end: tuple[tuple[int, int], ...]

    @staticmethod
    def of(topic: str, start: dict[int, int], end: dict[int, int]) -> OffsetRange:
        return OffsetRange(topic, tuple(sorted(start.items())), tuple(sorted(end.items())))

    def starts(self) -> dict[int, int]:
        return dict(self.start)

    def ends(self) -> dict[int, int]:
        return dict(self.end)

    @property
    def records_max(self) -> int:
        """Offsets in the range: an upper bound of its records (gaps count)."""
        starts = self.starts()
        return sum(end - starts.get(p, 0) for p, end in self.end)
