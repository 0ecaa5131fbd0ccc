"""Is a sink right?

The last count of every key, added up, is the number of input records.  Of the join every pair is
there, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tests.bench.workloads import PARTITIONS

__all__ = ["counted", "joined"]

_AT_ONCE = 10_000


def counted(client: Mapping[str, str], topic: str) -> tuple[int, int]:
    """(sum of the last counts, keys) of a sink topic, as read_committed readers see it."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_counted, dict(client), topic, p) for p in range(PARTITIONS)]
        found = [job.result() for job in jobs]
    return sum(n for n, _ in found), sum(k for _, k in found)


def joined(client: Mapping[str, str], topic: str) -> tuple[int, int, int]:
    """(records, those that pay what was ordered, orders) of a sink topic of (h)."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_joined, dict(client), topic, p) for p in range(PARTITIONS)]
        records, right, keys = zip(*(job.result() for job in jobs), strict=True)
    return sum(records), sum(right), sum(keys)


def _joined(client: dict[str, str], topic: str, partition: int) -> tuple[int, int, int]:
    records = right = 0
    keys: set[bytes | None] = set()
    for message in _messages(client, topic, partition):
        value = orjson.loads(message.value() or b"{}")
        records += 1
        right += "AMOUNT" in value and value["AMOUNT"] == value["PAID"]
        keys.add(message.key())
    return records, right, len(keys)


def _counted(client: dict[str, str], topic: str, partition: int) -> tuple[int, int]:
    last = _last_values(client, topic, partition)
    values = [value for value in last.values() if value is not None]
    return sum(orjson.loads(value)["N"] for value in values), len(values)


def _last_values(
    client: dict[str, str], topic: str, partition: int
) -> dict[bytes | None, bytes | None]:
    return {m.key(): m.value() for m in _messages(client, topic, partition)}


def _messages(client: dict[str, str], topic: str, partition: int) -> Iterator[Message]:
    """Every committed record of a topic partition."""
    own = {"group.id": "bench-check", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({**client, **own, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    try:
        while True:
            for message in consumer.consume(_AT_ONCE, 1.0):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                else:
                    raise RuntimeError(f"reading {topic}: {error}")
    finally:
        consumer.close()
