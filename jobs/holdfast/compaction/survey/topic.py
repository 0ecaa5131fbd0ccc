"""One changelog topic: its application and query, and its facts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.compaction.survey.facts import PartitionFacts, Setting, TopicFacts
from holdfast.compaction.survey.ground import Ground
from holdfast.compaction.survey.jobs import JobSeen, TableSeen, table_seen
from holdfast.compaction.survey.partition import Sampled, partition_facts, without_leader
from holdfast.compaction.survey.records import Expiry, RecordReader
from holdfast.compaction.survey.restore_rate import restore_facts
from holdfast.compaction.survey.sampling import OffsetSpan
from holdfast.errors import DataLoss, Refused, TopicMissing
from holdfast.state.changelog import CommitMarker
from holdfast.transport.cluster.view import Place

__all__ = ["TopicSurvey"]

_SETTINGS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.jitter.ms",
    "segment.ms",
)


class TopicSurvey:
    """Owns the facts read from one topic that may be a changelog, and notes the missing ones.

    Args:
        records_max: read about this many records of all partitions together; None: all of them.
    """

    def __init__(
        self, client: Mapping[str, str], ground: Ground, topic: str, records_max: int | None
    ) -> None:
        self.topic = topic
        self.records_read = 0
        self.notes: list[str] = []
        self._client = client
        self._ground = ground
        self._records_max = records_max
        self._markers: dict[int, CommitMarker] = {}

    @property
    def application_id(self) -> str:
        """The application id of the job that writes it; call `known` first."""
        return self._any().application_id

    @property
    def query_id(self) -> str:
        """The id of the query that writes it."""
        return self._any().query_id

    @property
    def sources(self) -> tuple[str, ...]:
        """The source topics of that query."""
        return self._any().source.topics

    def known(self) -> bool:
        """Reads the last commit markers; False without any, or with other programs' records.

        Raises:
            TopicMissing, DataLoss, KafkaUnavailable: from the readers.
        """
        for partition in range(len(self._ground.states[self.topic].partitions)):
            if (self.topic, partition) not in self._ground.ends:
                continue
            reader = RecordReader(self._client, self.topic, partition)
            try:
                tail = reader.tail(*self._bounds(partition))
            finally:
                self.records_read += reader.records_read
                reader.close()
            if tail.foreign:
                return False
            if tail.marker is not None:
                self._markers[partition] = tail.marker
        return bool(self._markers)

    def facts(
        self,
        jobs: Sequence[JobSeen],
        later_ends: Mapping[Place, int],
        gone: frozenset[str],
        readers: Sequence[str],
    ) -> TopicFacts:
        """All facts of the topic; reads its records.

        Args:
            later_ends: ends of all changelogs' partitions, after the jobs were asked.
            gone: source topics of changelogs that no longer exist.
            readers: consumer groups with offsets on it.

        Raises:
            TopicMissing, DataLoss, KafkaUnavailable: from the readers.
        """
        table = table_seen(jobs, self.application_id, self.query_id, self.topic)
        statement = _statement(self._any())
        windowed = bool(statement.get("window"))
        partitions = self._partitions(table, windowed, later_ends)
        settings = self._ground.settings[self.topic]
        return TopicFacts(
            self.topic,
            self._ground.states[self.topic].topic_id,
            self.application_id,
            self.query_id,
            windowed,
            table.retention_ms if windowed else 0,
            tuple(
                Setting(name, settings[name].value, settings[name].source)
                for name in _SETTINGS
                if name in settings
            ),
            partitions,
            restore_facts(
                [p.records for p in partitions], table.partitions.values(), table.executors
            ),
            orphaned=table.orphaned or _sourceless(self.sources, gone),
            readers=tuple(readers),
            longest_absence_ms=table.absence_ms,
            caught_up=table.caught_up,
            lag=table.lag,
        )

    def _any(self) -> CommitMarker:
        """The newest marker: all markers of a topic describe the same statement."""
        return max(self._markers.values(), key=lambda m: m.batch_id)

    def _bounds(self, partition: int) -> tuple[int, int]:
        place = (self.topic, partition)
        return self._ground.starts[place], self._ground.ends[place]

    def _partitions(
        self, table: TableSeen, windowed: bool, later_ends: Mapping[Place, int]
    ) -> tuple[PartitionFacts, ...]:
        states = self._ground.states[self.topic].partitions
        return tuple(
            self._partition(number, table, windowed, later_ends)
            if state.leader >= 0
            else without_leader(number, state)
            for number, state in enumerate(states)
        )

    def _partition(
        self, number: int, table: TableSeen, windowed: bool, later_ends: Mapping[Place, int]
    ) -> PartitionFacts:
        span = OffsetSpan(*self._bounds(number))
        marker = self._markers.get(number)
        stream_time_ms = marker.stream_time_ms if marker is not None else -1
        expiry = _expiry(windowed, table.retention_ms, stream_time_ms)
        sampled = self._sampled(number, span, expiry)
        rows = table.live_keys(number, span.end, later_ends.get((self.topic, number), span.end))
        return partition_facts(self._ground, (self.topic, number), sampled, rows, stream_time_ms)

    def _sampled(self, number: int, span: OffsetSpan, expiry: Expiry) -> Sampled:
        reader = RecordReader(self._client, self.topic, number)
        try:
            return Sampled.of(reader, span, self._share(span), expiry)
        except (TopicMissing, DataLoss):
            raise
        except Refused as refused:
            self.notes.append(f"{self.topic} partition {number} cannot be read: {refused.fact}")
            return Sampled.unreadable(span)
        finally:
            self.records_read += reader.records_read
            reader.close()

    def _share(self, span: OffsetSpan) -> int | None:
        """The records to read of this span, in proportion to its offsets."""
        if self._records_max is None:
            return None
        places = [p for p in self._ground.ends if p[0] == self.topic]
        every = sum(self._ground.ends[p] - self._ground.starts[p] for p in places)
        return max(1, self._records_max * span.offsets // max(1, every))


def _statement(marker: CommitMarker) -> dict[str, Any]:
    """The statement behind the rows, from the marker; empty when it is not JSON."""
    try:
        found = json.loads(marker.canonical)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _expiry(windowed: bool, retention_ms: int, stream_time_ms: int) -> Expiry:
    if not windowed:
        return Expiry()
    if not retention_ms or stream_time_ms < 0:
        return Expiry(known=False)
    return Expiry(stream_time_ms - retention_ms)


def _sourceless(sources: Sequence[str], gone: frozenset[str]) -> str:
    lost = [source for source in sources if source in gone]
    return f"its source topic {' and '.join(lost)} is gone" if lost else ""
