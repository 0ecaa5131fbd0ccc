"""Topics, offsets and groups: what the cluster holds, and the few changes Holdfast makes to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs re-export nothing
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from holdfast.errors import HangingTransaction, HoldfastError, KafkaUnavailable, TopicMissing
from holdfast.transport.cluster.group_offsets import GroupOffsets
from holdfast.transport.cluster.retrying_admin import PatientClient
from holdfast.transport.errors import (
    kafka_error,
    known_offset,
    silent,
    translate,
)
from holdfast.types.ids import Place

__all__ = ["Admin", "TopicBounds", "TopicInfo"]

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # has no annotations
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # has no annotations
_TIMEOUT_S = 30.0
_SHOW_S = 5.0  # for what only lag tools look at
_RETRY_S = 0.2
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_EXISTS = frozenset({KafkaError.TOPIC_ALREADY_EXISTS})


@dataclass(frozen=True)
class TopicInfo:
    """A topic as the cluster describes it; `topic_id` changes when it is deleted and remade."""

    name: str
    topic_id: str
    partitions: int
    replicas: int


@dataclass(frozen=True)
class TopicBounds:
    """What is in the topic with that id: log start and read-committed end by topic partition."""

    topic_id: str
    bounds: dict[int, tuple[int, int]]


class Admin:
    """Asks and changes the cluster.  Safe to share between threads."""

    def __init__(self, client: Mapping[str, str], timeout_s: float = _TIMEOUT_S) -> None:
        """Nothing is sent before the first call; `timeout_s` bounds each one.

        Raises:
            InvalidConfig: the client refuses a property.
        """
        self._properties = dict(client)
        self._timeout_s = timeout_s
        self._patient = PatientClient(client, timeout_s)
        self._groups = GroupOffsets(client)
        self._looked: dict[str, TopicInfo] = {}  # what the last look at a topic has found

    @property
    def _client(self) -> AdminClient:
        return self._patient.client

    def wait_ready(self, timeout_s: float) -> int:
        """Wait for a broker to answer; returns how many brokers there are.

        Raises:
            KafkaUnavailable: none answered in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                brokers = self._client.list_topics(timeout=min(2.0, timeout_s)).brokers
            except KafkaException as error:
                found = translate(error, "listing brokers", self._properties)
                if not isinstance(found, KafkaUnavailable):
                    raise found from error
                brokers = {}
            if brokers:
                return len(brokers)
            self._client.poll(0)  # which hears why a connection was closed
            if time.monotonic() >= deadline:
                raise silent("listing brokers", self._properties, timeout_s)
            time.sleep(_RETRY_S)

    def ensure_topic(
        self,
        name: str,
        partitions: int,
        replicas: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> TopicInfo:
        """Create the topic when it is missing; an existing one is returned as it is.

        Args:
            replicas: -1 for the broker's default.

        Raises:
            KafkaUnavailable, Refused: it could not be created.
        """
        existing = self.describe(name)
        if existing is not None:
            return existing
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {})
        )
        future = self._client.create_topics([topic], request_timeout=self._timeout_s)[name]
        try:
            future.result()
        except KafkaException as error:
            if kafka_error(error).code() not in _EXISTS:
                acl = f"CREATE on topic {name}"
                raise translate(error, f"creating topic {name}", self._properties, acl) from error
        return self._await_topic(name)

    def describe(self, name: str) -> TopicInfo | None:
        """The topic, or None when there is none.

        Raises:
            KafkaUnavailable, Refused: the cluster did not say.
        """
        found = self._description(name)
        if found is None:
            return None
        replicas = min((len(p.replicas) for p in found.partitions), default=0)
        return TopicInfo(name, str(found.topic_id), len(found.partitions), replicas)

    def config(self, name: str) -> dict[str, str]:
        """Every setting of a topic that has a value, defaults included.

        Raises:
            TopicMissing: there is no such topic.
        """
        entries = self._settings(name)
        return {key: entry.value for key, entry in entries.items() if entry.value is not None}

    def raised(self, name: str, setting: str) -> int | None:
        """A topic's own number, where it is above what the brokers give to other topics.

        Raises:
            TopicMissing: there is no such topic.
        """
        entry = self._settings(name)[setting]
        others = [e for e in entry.synonyms.values() if not _is_topic_s(e)]
        if len(others) == len(entry.synonyms):
            return None
        own = int(entry.value or 0)
        return own if all(own > int(e.value or 0) for e in others) else None

    def _settings(self, name: str) -> dict[str, ConfigEntry]:
        resource = ConfigResource(ResourceType.TOPIC, name)

        def ask() -> dict[str, ConfigEntry]:
            futures = self._client.describe_configs([resource], request_timeout=self._timeout_s)
            entries: dict[str, ConfigEntry] = futures[resource].result()
            return entries

        acl = f"DESCRIBE_CONFIGS on topic {name}"
        return self._patient.ask(ask, f"reading the settings of topic {name}", acl=acl)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """Log start and read_committed end (last stable offset) of each topic partition.

        A transaction that was just committed may take a moment to move the end; one that its
        producer's successor has fenced (`TransactionalProducer.init`) is always counted.

        Raises:
            TopicMissing: there is no such topic.
        """
        return self._bounds(topic, self._described(topic).partitions)

    def look(self, topic: str) -> TopicBounds:
        """`bounds`, and the id of the very topic that they are of.

        Brokers tell a topic's id and its offsets in two answers.  It is the same topic when it had
        that id before and after: the last look says what it was before, so that a look costs no
        more requests than `bounds`.

        Raises:
            TopicMissing: there is no such topic.
        """
        before = self._looked.pop(topic, None)
        while True:
            before = before or self._described(topic)
            try:
                bounds = self._bounds(topic, before.partitions)
            except HoldfastError:  # of a topic made again with fewer partitions, too
                if self._described(topic) == before:
                    raise
                before = None
                continue
            now = self._described(topic)
            if (now.topic_id, now.partitions) == (before.topic_id, before.partitions):
                self._looked[topic] = now
                return TopicBounds(now.topic_id, bounds)
            before = now

    def _bounds(self, topic: str, count: int) -> dict[int, tuple[int, int]]:
        starts = self._listed(topic, _each(topic, count, _EARLIEST))
        ends = self._listed(topic, _each(topic, count, _LATEST))
        return {p: (start, ends[p]) for p, start in starts.items()}

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The read_committed end (last stable offset) of each topic partition.

        Raises:
            TopicMissing: there is no such topic.
        """
        return self._offsets(topic, _LATEST)

    def first_at(self, topic: str, time_ms: int) -> dict[int, int]:
        """The first offset at or after a record time; topic partitions without one are left out.

        Raises:
            TopicMissing: there is no such topic.
        """
        spec = OffsetSpec.for_timestamp(time_ms)
        return {p: offset for p, offset in self._offsets(topic, spec).items() if offset >= 0}

    def high_watermarks(self, topic: str) -> dict[int, int]:
        """The end of each topic partition, records of open transactions included.

        Raises:
            TopicMissing: there is no such topic.
        """
        return self._offsets(topic, _LATEST, IsolationLevel.READ_UNCOMMITTED)

    def await_ended(self, topic: str, partition: int, timeout_s: float) -> None:
        """Wait until no transaction is open in a topic partition.

        Call it after `TransactionalProducer.init` of the only producer that writes there: then a
        transaction that stays open is one whose marker Kafka has dropped (ADR 9), and the next
        commit of the same producer would commit it, whatever had been decided.

        Raises:
            HangingTransaction: one is still open.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            # The end is asked first: the other one can only move on meanwhile.
            end = self._offset(topic, partition, IsolationLevel.READ_UNCOMMITTED)
            stable = self._offset(topic, partition, IsolationLevel.READ_COMMITTED)
            if stable >= end:
                return
            if time.monotonic() >= deadline:
                raise _hanging(topic, partition, stable, end)
            time.sleep(_RETRY_S)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Committed offsets of a consumer group by topic partition; empty when it has none."""
        info = self.describe(topic)
        if info is None:
            return {}
        places = [TopicPartition(topic, p) for p in range(info.partitions)]

        def ask() -> list[TopicPartition]:
            return self._groups.committed(group, places, self._patient.attempt_s)

        doing = f"reading offsets of group {group}"
        found = self._patient.ask(ask, doing, acl=f"DESCRIBE on group {group}")
        return {tp.partition: tp.offset for tp in found if tp.offset >= 0}

    def commit_group(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set committed offsets of a group without members.

        Args:
            offsets: next offset to read by topic partition.

        Raises:
            Refused: the group has members, or may not be written.
        """
        places = [TopicPartition(topic, p, offset) for p, offset in offsets.items()]
        if not places:
            return

        def tell() -> None:
            self._groups.commit(group, places, _SHOW_S)

        doing = f"committing offsets of group {group}"
        self._patient.ask(tell, doing, _SHOW_S, acl=f"READ on group {group}")

    def delete_records(self, before: Mapping[Place, int]) -> None:
        """Delete all records before these offsets, by topic and topic partition.

        Raises:
            KafkaUnavailable, Refused: some or all are still there.
        """
        places = [TopicPartition(topic, p, offset) for (topic, p), offset in before.items()]

        def tell() -> None:
            futures = self._client.delete_records(places, request_timeout=self._patient.attempt_s)
            for future in futures.values():
                future.result()

        topics = ", ".join(sorted({topic for topic, _ in before}))
        self._patient.ask(tell, f"deleting records of {topics}", acl=f"DELETE on topic {topics}")

    def add_partitions(self, name: str, partitions: int) -> None:
        """Give a topic so many partitions and wait until it has them; one with more stays as it is.

        Raises:
            KafkaUnavailable, Refused, TopicMissing: it does not have them.
        """
        if self._described(name).partitions >= partitions:
            return
        wanted = NewPartitions(name, partitions)
        future = self._client.create_partitions([wanted], request_timeout=self._timeout_s)[name]
        acl = f"ALTER on topic {name}"
        try:
            future.result()
        except KafkaException as error:
            doing = f"adding partitions to topic {name}"
            raise translate(error, doing, self._properties, acl) from error
        self._await_topic(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone; a missing one is fine.

        Raises:
            KafkaUnavailable, Refused: it is still there.
        """
        future = self._client.delete_topics([name], request_timeout=self._timeout_s)[name]
        try:
            future.result()
        except KafkaException as error:
            if kafka_error(error).code() not in _MISSING:
                acl = f"DELETE on topic {name}"
                raise translate(error, f"deleting topic {name}", self._properties, acl) from error
        deadline = time.monotonic() + self._timeout_s
        while self._description(name) is not None:
            if time.monotonic() >= deadline:
                raise silent(f"deleting topic {name}", self._properties, self._timeout_s)
            time.sleep(_RETRY_S)

    def _description(self, name: str) -> TopicDescription | None:
        def ask() -> TopicDescription | None:
            futures = self._client.describe_topics(
                TopicCollection([name]), request_timeout=self._patient.attempt_s
            )
            try:
                found: TopicDescription = futures[name].result()
            except KafkaException as error:
                if kafka_error(error).code() in _MISSING:
                    return None
                raise
            return found

        acl = f"DESCRIBE on topic {name}"
        return self._patient.ask(ask, f"describing topic {name}", acl=acl)

    def _await_topic(self, name: str, partitions: int = 1) -> TopicInfo:
        """The topic, as soon as it has so many partitions and each of them has a leader."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            found = self._description(name)
            led = [p.leader is not None for p in found.partitions] if found is not None else []
            if len(led) >= partitions and all(led):
                info = self.describe(name)
                if info is not None:
                    return info
            if time.monotonic() >= deadline:
                raise silent(f"creating topic {name}", self._properties, self._timeout_s)
            time.sleep(_RETRY_S)

    def _offsets(
        self,
        topic: str,
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, int]:
        count = self._described(topic).partitions
        return self._listed(topic, _each(topic, count, spec), isolation)

    def _described(self, topic: str) -> TopicInfo:
        info = self.describe(topic)
        if info is None:
            raise TopicMissing(
                f"There is no topic {topic}.",
                cause="it was deleted, or its name is misspelt.",
                action="create it, or correct its name.",
            )
        return info

    def _offset(self, topic: str, partition: int, isolation: IsolationLevel) -> int:
        """The end of one topic partition."""
        return self._listed(topic, {TopicPartition(topic, partition): _LATEST}, isolation)[
            partition
        ]

    def _listed(
        self,
        topic: str,
        places: dict[TopicPartition, OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, int]:
        def ask() -> dict[int, int]:
            futures = self._client.list_offsets(
                places,
                isolation_level=isolation,
                request_timeout=self._patient.attempt_s,
            )
            found = {tp.partition: future.result().offset for tp, future in futures.items()}
            return {p: known_offset(offset) for p, offset in found.items()}

        acl = f"DESCRIBE on topic {topic}"
        return self._patient.ask(ask, f"reading offsets of topic {topic}", acl=acl)


def _is_topic_s(entry: ConfigEntry) -> bool:
    return ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG


def _each(topic: str, partitions: int, spec: OffsetSpec) -> dict[TopicPartition, OffsetSpec]:
    return {TopicPartition(topic, p): spec for p in range(partitions)}


def _hanging(topic: str, partition: int, stable: int, end: int) -> HangingTransaction:
    place = f"--topic {topic} --partition {partition} --start-offset {stable}"
    return HangingTransaction(
        f"Topic {topic} partition {partition} holds a transaction that nobody ends: stable to "
        f"offset {stable}, end {end}.",
        cause="its only broker was killed while the transaction ended, and Kafka dropped the "
        "marker of a partition without a leader",
        action="look at the transaction with `kafka-transactions.sh --bootstrap-server … "
        f"describe-producers --topic {topic} --partition {partition}`, end it with "
        f"`kafka-transactions.sh --bootstrap-server … abort {place}`, and start the job again",
    )
