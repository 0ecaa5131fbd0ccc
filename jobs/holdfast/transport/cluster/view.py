"""Reads the facts of many topics at once: replicas, offsets by time, and consumer groups.

`Admin` reads one topic of a job; here one request serves all topics of a survey.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from confluent_kafka import Consumer, IsolationLevel, Node, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs re-export nothing
    ClusterMetadata,
    ListOffsetsResultInfo,
    OffsetSpec,
    TopicDescription,
)

from holdfast.transport.cluster.group_offsets import committed_offsets
from holdfast.transport.cluster.retrying_admin import PatientClient
from holdfast.transport.errors import client_config, known_offset

__all__ = ["ClusterView", "OffsetAt", "PartitionState", "Place", "TopicState"]

_TIMEOUT_S = 30.0
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # has no annotations
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # has no annotations
_NEWEST = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]  # has no annotations

Place: TypeAlias = tuple[str, int]  # topic, topic partition


@dataclass(frozen=True)
class PartitionState:
    """The brokers of a topic partition, by id; `leader` is -1 without one."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class TopicState:
    """A topic as the cluster describes it; `topic_id` changes when it is recreated."""

    topic_id: str
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True)
class OffsetAt:
    """An offset and the wall time of its record in ms; -1 if there is none."""

    offset: int
    timestamp_ms: int


class ClusterView:
    """Reads facts of the cluster and changes nothing.  Safe to share between threads."""

    def __init__(self, client: Mapping[str, str], timeout_s: float = _TIMEOUT_S) -> None:
        """Sends nothing before the first call; `timeout_s` bounds each call.

        Raises:
            InvalidConfig: the client refuses a property.
        """
        self._patient = PatientClient(client, timeout_s)

    def cluster(self) -> tuple[str, tuple[str, ...]]:
        """The cluster's id, and the names of all topics visible to the principal.

        Raises:
            KafkaUnavailable: no broker answered in time.
        """
        found = self._metadata("listing topics")
        return str(found.cluster_id), tuple(sorted(found.topics))

    def brokers(self) -> list[str]:
        """Host and port of each broker, as it advertises them.

        Raises:
            KafkaUnavailable: no broker answered in time.
        """
        found = self._metadata("listing brokers")
        return [f"{broker.host}:{broker.port}" for broker in found.brokers.values()]

    def _metadata(self, doing: str) -> ClusterMetadata:
        def ask() -> ClusterMetadata:
            return self._patient.client.list_topics(timeout=self._patient.attempt_s)

        return self._patient.ask(ask, doing)

    def topics(self, names: Sequence[str]) -> dict[str, TopicState]:
        """Ids and replicas.

        Raises:
            TopicMissing: a topic is gone.
            Refused: the principal lacks DESCRIBE on a topic.
            KafkaUnavailable: no broker answered in time.
        """
        if not names:
            return {}

        def ask() -> dict[str, TopicDescription]:
            futures = self._patient.client.describe_topics(
                TopicCollection(list(names)), request_timeout=self._patient.attempt_s
            )
            return {name: future.result() for name, future in futures.items()}

        said = f"topic {', '.join(names)}"
        found = self._patient.ask(ask, f"describing {said}", acl=f"DESCRIBE on {said}")
        return {name: _state(found[name]) for name in names}

    def starts(self, places: Iterable[Place]) -> dict[Place, int]:
        """Log start offsets.

        Raises:
            TopicMissing, KafkaUnavailable: a topic is gone, or no broker answered in time.
        """
        found = self._offsets(dict.fromkeys(places, _EARLIEST))
        return {place: at.offset for place, at in found.items()}

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """Read-committed ends (last stable offsets).

        Raises:
            TopicMissing, KafkaUnavailable: a topic is gone, or no broker answered in time.
        """
        found = self._offsets(dict.fromkeys(places, _LATEST))
        return {place: at.offset for place, at in found.items()}

    def high_watermarks(self, places: Iterable[Place]) -> dict[Place, int]:
        """Ends including the records of open transactions.

        Raises:
            TopicMissing, KafkaUnavailable: a topic is gone, or no broker answered in time.
        """
        found = self._offsets(dict.fromkeys(places, _LATEST), IsolationLevel.READ_UNCOMMITTED)
        return {place: at.offset for place, at in found.items()}

    def newest(self, places: Iterable[Place]) -> dict[Place, OffsetAt]:
        """For each topic partition, the record with the highest time.

        Raises:
            TopicMissing, KafkaUnavailable: a topic is gone, or no broker answered in time.
        """
        return self._offsets(dict.fromkeys(places, _NEWEST))

    def since(self, times_ms: Mapping[Place, int]) -> dict[Place, OffsetAt]:
        """For each topic partition, the first record at or after the given time.

        Raises:
            TopicMissing, KafkaUnavailable: a topic is gone, or no broker answered in time.
        """
        return self._offsets(
            {place: OffsetSpec.for_timestamp(time_ms) for place, time_ms in times_ms.items()}
        )

    def groups(self) -> tuple[str, ...]:
        """Ids of all consumer groups visible to the principal.

        Raises:
            Refused: the principal lacks DESCRIBE on groups.
            KafkaUnavailable: no broker answered in time.
        """

        def ask() -> tuple[str, ...]:
            future = self._patient.client.list_consumer_groups(
                request_timeout=self._patient.attempt_s
            )
            return tuple(sorted(group.group_id for group in future.result().valid))

        return self._patient.ask(ask, "listing consumer groups", acl="DESCRIBE on the cluster")

    def topics_read_by(self, group: str, places: Sequence[Place]) -> set[str]:
        """The topics of `places` for which a consumer group has committed offsets.

        Raises:
            Refused: the principal lacks DESCRIBE on the group.
            KafkaUnavailable: no broker answered in time.
        """
        return {topic for topic, _ in self.committed_by(group, places)}

    def committed_by(self, group: str, places: Sequence[Place]) -> dict[Place, int]:
        """The offsets of `places` that a consumer group has committed, without the others.

        Raises:
            Refused: the principal lacks DESCRIBE on the group.
            KafkaUnavailable: no broker answered in time.
        """
        fixed = {"group.id": group, "enable.auto.commit": False}
        consumer = Consumer(client_config(self._patient.properties, {}, fixed))
        asked = [TopicPartition(topic, partition) for topic, partition in places]
        try:
            found = self._patient.ask(
                lambda: committed_offsets(consumer, asked, self._patient.attempt_s),
                f"reading offsets of group {group}",
                acl=f"DESCRIBE on group {group}",
            )
        finally:
            consumer.close()
        return {(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    def _offsets(
        self,
        specs: Mapping[Place, OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[Place, OffsetAt]:
        if not specs:
            return {}
        asked = {
            TopicPartition(topic, partition): spec for (topic, partition), spec in specs.items()
        }

        def ask() -> dict[Place, OffsetAt]:
            futures = self._patient.client.list_offsets(
                asked,
                isolation_level=isolation,
                request_timeout=self._patient.attempt_s,
            )
            return {(p.topic, p.partition): _at(future.result()) for p, future in futures.items()}

        names = ", ".join(sorted({topic for topic, _ in specs}))
        return self._patient.ask(ask, f"reading offsets of {names}", acl=f"DESCRIBE on {names}")


def _state(found: TopicDescription) -> TopicState:
    ordered = sorted(found.partitions, key=lambda p: p.id)
    return TopicState(
        str(found.topic_id),
        tuple(
            PartitionState(
                leader=_broker(p.leader),
                replicas=tuple(node.id for node in p.replicas),
                in_sync=tuple(node.id for node in p.isr),
            )
            for p in ordered
        ),
    )


def _broker(node: Node | None) -> int:
    return -1 if node is None else node.id


def _at(found: ListOffsetsResultInfo) -> OffsetAt:
    return OffsetAt(known_offset(found.offset), found.timestamp)
