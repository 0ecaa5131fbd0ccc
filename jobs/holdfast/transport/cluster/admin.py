"""Topics, offsets and groups of a cluster: reads them, and makes the few changes needed."""

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
from holdfast.types.words import nearest

__all__ = ["Admin", "TopicBounds", "TopicInfo"]

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # has no annotations
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # has no annotations
_TIMEOUT_S = 30.0
_SHOW_S = 5.0  # for group offsets, which only lag tools read
_RETRY_S = 0.2
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_EXISTS = frozenset({KafkaError.TOPIC_ALREADY_EXISTS})


@dataclass(frozen=True)
class TopicInfo:
    """A topic as the cluster describes it; `topic_id` changes when it is recreated."""

    name: str
    topic_id: str
    partitions: int
    replicas: int


@dataclass(frozen=True)
class TopicBounds:
    """The bounds of the topic with that id: log start and read-committed end by partition."""

    topic_id: str
    bounds: dict[int, tuple[int, int]]


class Admin:
    """Reads and changes the cluster.  Safe to share between threads."""

    def __init__(self, client: Mapping[str, str], timeout_s: float = _TIMEOUT_S) -> None:
        """Sends nothing before the first call; `timeout_s` bounds each call.

        Raises:
            InvalidConfig: the client refuses a property.
        """
        self._properties = dict(client)
        self._timeout_s = timeout_s
        self._patient = PatientClient(client, timeout_s)
        self._groups = GroupOffsets(client)
        self._looked: dict[str, TopicInfo] = {}  # the last result of `look` by topic

    @property
    def _client(self) -> AdminClient:
        return self._patient.client

    def wait_ready(self, timeout_s: float) -> int:
        """Waits for a broker to answer; returns how many brokers there are.

        Raises:
            KafkaUnavailable: no broker answered in time.
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
            self._client.poll(0)  # receives the event why a connection was closed
            if time.monotonic() >= deadline:
                raise silent("listing brokers", self._properties, timeout_s)
            time.sleep(_RETRY_S)

    def names(self) -> list[str]:
        """The names of all topics that this client may see, sorted; empty if no broker answers."""
        try:
            return sorted(self._client.list_topics(timeout=self._timeout_s).topics)
        except KafkaException:
            return []

    def ensure_topic(
        self,
        name: str,
        partitions: int,
        replicas: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> TopicInfo:
        """Creates the topic if it is missing; returns an existing one unchanged.

        Args:
            replicas: -1 for the broker's default.

        Raises:
            KafkaUnavailable, Refused: the topic could not be created.
        """
        existing = self.describe(name)
        if existing is not None:
            return existing
        self.create_topic(name, partitions, replicas, config)
        return self._await_topic(name)

    def create_topic(
        self,
        name: str,
        partitions: int,
        replicas: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> TopicInfo | None:
        """Creates a topic; None if there is one of that name, whoever made it.

        Raises:
            KafkaUnavailable, Refused: the topic could not be created.
        """
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {})
        )
        future = self._client.create_topics([topic], request_timeout=self._timeout_s)[name]
        try:
            future.result()
        except KafkaException as error:
            if kafka_error(error).code() in _EXISTS:
                return None
            acl = f"CREATE on topic {name}"
            raise translate(error, f"creating topic {name}", self._properties, acl) from error
        return self._await_topic(name)

    def describe(self, name: str) -> TopicInfo | None:
        """The topic, or None if it does not exist.

        Raises:
            KafkaUnavailable, Refused: the cluster did not answer.
        """
        found = self._description(name)
        if found is None:
            return None
        replicas = min((len(p.replicas) for p in found.partitions), default=0)
        return TopicInfo(name, str(found.topic_id), len(found.partitions), replicas)

    def allowed(self, name: str) -> frozenset[str] | None:
        """The ACL operations that this client's principal may do on a topic.

        Without an authorizer these are all.  None: the brokers do not say, or the topic does not
        exist.
        """

        def ask() -> frozenset[str] | None:
            futures = self._client.describe_topics(
                TopicCollection([name]),
                include_authorized_operations=True,
                request_timeout=self._patient.attempt_s,
            )
            try:
                told = futures[name].result().authorized_operations
            except KafkaException as error:
                if kafka_error(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    return frozenset()
                if kafka_error(error).code() in _MISSING:
                    return None
                raise
            return frozenset(operation.name for operation in told) if told else None

        return self._patient.ask(ask, f"asking what may be done to topic {name}")

    def config(self, name: str) -> dict[str, str]:
        """Every setting of a topic that has a value, defaults included.

        Raises:
            TopicMissing: there is no such topic.
        """
        entries = self._settings(name)
        return {key: entry.value for key, entry in entries.items() if entry.value is not None}

    def raised(self, name: str, setting: str) -> int | None:
        """A topic's own value of a numeric setting, if it is above the brokers' default.

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
        """The result of `bounds`, with the id of the topic to which it belongs.

        Brokers return a topic's id and its offsets in two answers.  They belong together if the
        topic had the same id before and after; the last call provides the id before, so that this
        costs no more requests than `bounds`.

        Raises:
            TopicMissing: there is no such topic.
        """
        before = self._looked.pop(topic, None)
        while True:
            before = before or self._described(topic)
            try:
                bounds = self._bounds(topic, before.partitions)
            except HoldfastError:  # also for a topic recreated with fewer partitions
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
        """The first offset at or after a record time; omits topic partitions without one.

        Raises:
            TopicMissing: there is no such topic.
        """
        spec = OffsetSpec.for_timestamp(time_ms)
        return {p: offset for p, offset in self._offsets(topic, spec).items() if offset >= 0}

    def high_watermarks(self, topic: str) -> dict[int, int]:
        """The end of each topic partition, including records of open transactions.

        Raises:
            TopicMissing: there is no such topic.
        """
        return self._offsets(topic, _LATEST, IsolationLevel.READ_UNCOMMITTED)

    def await_ended(self, topic: str, partition: int, timeout_s: float) -> None:
        """Waits until no transaction is open in a topic partition.

        Call it after `TransactionalProducer.init` of the only producer that writes there: a
        transaction that then stays open is one whose marker Kafka has dropped (ADR 9), and the
        producer's next commit would commit it, even if it had been aborted.

        Raises:
            HangingTransaction: a transaction is still open.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            # The end is read first, because the stable offset can only grow meanwhile.
            end = self._offset(topic, partition, IsolationLevel.READ_UNCOMMITTED)
            stable = self._offset(topic, partition, IsolationLevel.READ_COMMITTED)
            if stable >= end:
                return
            if time.monotonic() >= deadline:
                raise _hanging(topic, partition, stable, end)
            time.sleep(_RETRY_S)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Committed offsets of a consumer group by topic partition; empty if it has none."""
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
        """Sets committed offsets of a group without members.

        Args:
            offsets: next offset to read by topic partition.

        Raises:
            Refused: the group has members, or the principal may not write it.
        """
        places = [TopicPartition(topic, p, offset) for p, offset in offsets.items()]
        if not places:
            return

        def tell() -> None:
            self._groups.commit(group, places, _SHOW_S)

        doing = f"committing offsets of group {group}"
        self._patient.ask(tell, doing, _SHOW_S, acl=f"READ on group {group}")

    def delete_records(self, before: Mapping[Place, int]) -> None:
        """Deletes all records before these offsets, by topic and topic partition.

        Raises:
            KafkaUnavailable, Refused: some or all records still exist.
        """
        places = [TopicPartition(topic, p, offset) for (topic, p), offset in before.items()]

        def tell() -> None:
            futures = self._client.delete_records(places, request_timeout=self._patient.attempt_s)
            for future in futures.values():
                future.result()

        topics = ", ".join(sorted({topic for topic, _ in before}))
        self._patient.ask(tell, f"deleting records of {topics}", acl=f"DELETE on topic {topics}")

    def add_partitions(self, name: str, partitions: int) -> None:
        """Adds partitions up to that number and waits for them; never removes any.

        Raises:
            KafkaUnavailable, Refused, TopicMissing: the topic does not have them.
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
        """Deletes a topic and waits until it is gone; does nothing if it is missing.

        Raises:
            KafkaUnavailable, Refused: the topic still exists.
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
        """Waits until the topic has so many partitions and each has a leader; returns it."""
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
            near = nearest(topic, self.names())
            raise TopicMissing(
                f"There is no topic {topic}.",
                cause="it was deleted, or its name is misspelt.",
                action=f"did you mean {near}?" if near else "create it, or correct its name.",
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
