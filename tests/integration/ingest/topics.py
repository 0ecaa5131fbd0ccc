"""Topics and records for the ingest tests, made with the plain client."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs re-export nothing
    AdminClient,
    NewPartitions,
    NewTopic,
)

from holdfast.transport.cluster.admin import Admin
from tests.integration.transport.settling import await_settled

__all__ = [
    "Letter",
    "add_partitions",
    "create",
    "delete_records",
    "end",
    "end_transaction",
    "letters",
    "open_transaction",
    "produce",
    "transaction",
]

Record = tuple[bytes | None, bytes | None]


@dataclass
class Letter:
    key: bytes | None
    value: bytes | None
    headers: dict[str, str]


def _admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


def create(
    servers: str, partitions: int = 1, config: Mapping[str, str] | None = None, name: str = ""
) -> str:
    """A new topic; returns its name once it can be used."""
    topic = name or f"in-{uuid.uuid4().hex[:10]}"
    new = NewTopic(topic, partitions, 1, config=dict(config or {}))
    admin = _admin(servers)  # it must outlive its futures
    admin.create_topics([new])[topic].result(30)
    _await_partitions(admin, topic, partitions)
    return topic


def add_partitions(servers: str, topic: str, total: int) -> None:
    admin = _admin(servers)
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)
    _await_partitions(admin, topic, total)


def _await_partitions(admin: AdminClient, topic: str, total: int) -> None:
    """The controller has them before the broker tells clients of them."""
    deadline = time.monotonic() + 30
    while True:
        found = admin.list_topics(topic, timeout=30).topics[topic]
        ready = [p for p in found.partitions.values() if p.leader >= 0]
        if found.error is None and len(ready) == total:
            return
        assert time.monotonic() < deadline, f"{topic} has {len(ready)} partitions, not {total}"
        time.sleep(0.02)


def letters(servers: str, topic: str, *, settled: bool = True) -> list[Letter]:
    """Every committed record of topic partition 0, with headers.

    Args:
        settled: no transaction stays open there; one that was just committed is waited for.
    """
    if settled:
        await_settled(Admin({"bootstrap.servers": servers}), topic)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "test",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Letter] = []
    while True:
        message = consumer.poll(10)
        assert message is not None, f"no answer about {topic}"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return found
        headers = dict(message.headers() or [])
        texts = {k: v.decode() for k, v in headers.items() if isinstance(v, bytes)}
        found.append(Letter(message.key(), message.value(), texts))


def end(servers: str, topic: str) -> int:
    """The end of topic partition 0."""
    return Admin({"bootstrap.servers": servers}).end_offsets(topic)[0]


def delete_records(servers: str, topic: str, partition: int, before: int) -> None:
    """Move the log start to `before`, as retention would."""
    where = TopicPartition(topic, partition, before)
    admin = _admin(servers)
    for future in admin.delete_records([where]).values():
        future.result(30)


def produce(
    servers: str, topic: str, records: Iterable[Record], partition: int = 0, timestamp: int = 0
) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for key, value in records:
        producer.produce(topic, value, key, partition, timestamp=timestamp)
        producer.poll(0)
    assert producer.flush(30) == 0


def open_transaction(
    servers: str, topic: str, records: Iterable[Record], partition: int = 0
) -> Producer:
    """Records in a transaction that is still open; `end_transaction` ends it."""
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": f"t-{uuid.uuid4().hex[:10]}"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for key, value in records:
        producer.produce(topic, value, key, partition)
    assert producer.flush(30) == 0
    return producer


def transaction(
    servers: str,
    topic: str,
    records: Iterable[Record],
    partition: int = 0,
    *,
    commit: bool = True,
) -> None:
    producer = open_transaction(servers, topic, records, partition)
    end_transaction(servers, topic, producer, commit=commit)


def end_transaction(servers: str, topic: str, producer: Producer, *, commit: bool = True) -> None:
    """Commit or abort the only open transaction of a topic; readers see its end afterwards."""
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
    await_settled(Admin({"bootstrap.servers": servers}), topic)
