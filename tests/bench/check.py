"""Is a sink right?

The last count of every key, added up, is the number of input records.  Of the join every result
is there: as many as the input has pairs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tests.bench.workloads import JOINED_MS, PARTITIONS

__all__ = ["counted", "paired"]

_AT_ONCE = 10_000


def counted(client: Mapping[str, str], topic: str) -> tuple[int, int]:
    """(sum of the last counts, keys) of a sink topic, as read_committed readers see it."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_counted, dict(client), topic, p) for p in range(PARTITIONS)]
        found = [job.result() for job in jobs]
    return sum(n for n, _ in found), sum(k for _, k in found)


def paired(client: Mapping[str, str], source: str, sink: str) -> tuple[int, int]:
    """(pairs that the input topic has, results in the sink topic)."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_pairs, dict(client), source, p) for p in range(PARTITIONS)]
        results = [pool.submit(_results, dict(client), sink, p) for p in range(PARTITIONS)]
        return sum(job.result() for job in jobs), sum(job.result() for job in results)


def _pairs(client: dict[str, str], topic: str, partition: int) -> int:
    times: dict[bytes | None, list[int]] = {}
    for message in _messages(client, topic, partition):
        times.setdefault(message.key(), []).append(message.timestamp()[1])
    return sum(
        bisect_right(ordered, at + JOINED_MS) - bisect_left(ordered, at - JOINED_MS)
        for ordered in map(sorted, times.values())
        for at in ordered
    )


def _results(client: dict[str, str], topic: str, partition: int) -> int:
    return sum(1 for _ in _messages(client, topic, partition))


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
