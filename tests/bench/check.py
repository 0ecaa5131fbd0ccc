"""Is a sink right?  The last count of every key, added up, is the number of input records."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.bench.workloads import PARTITIONS

__all__ = ["counted"]

_AT_ONCE = 10_000


def counted(client: Mapping[str, str], topic: str) -> tuple[int, int]:
    """(sum of the last counts, keys) of a sink topic, as read_committed readers see it."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_counted, dict(client), topic, p) for p in range(PARTITIONS)]
        found = [job.result() for job in jobs]
    return sum(n for n, _ in found), sum(k for _, k in found)


def _counted(client: dict[str, str], topic: str, partition: int) -> tuple[int, int]:
    last = _last_values(client, topic, partition)
    values = [value for value in last.values() if value is not None]
    return sum(orjson.loads(value)["N"] for value in values), len(values)


def _last_values(
    client: dict[str, str], topic: str, partition: int
) -> dict[bytes | None, bytes | None]:
    own = {"group.id": "bench-check", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({**client, **own, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    last: dict[bytes | None, bytes | None] = {}
    try:
        while True:
            for message in consumer.consume(_AT_ONCE, 1.0):
                error = message.error()
                if error is None:
                    last[message.key()] = message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    return last
                else:
                    raise RuntimeError(f"reading {topic}: {error}")
    finally:
        consumer.close()
