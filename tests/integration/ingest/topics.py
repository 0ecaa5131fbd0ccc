"""Topics and records for the ingest tests, made with the plain client."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs re-export nothing
    AdminClient,
    NewTopic,
)

__all__ = ["create", "delete", "delete_records", "open_transaction", "produce", "transaction"]

Record = tuple[bytes | None, bytes | None]


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
    return topic


def delete(servers: str, topic: str) -> None:
    admin = _admin(servers)
    admin.delete_topics([topic])[topic].result(30)


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
    """Records in a transaction that is still open; the caller commits or aborts it."""
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
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
