"""Is a sink right?  Every row of it is compared with what the input topics say.

Of a table: N and the sums of every key and window, the last result of each.  Of the join: every
pair, once.  The input is read from its topic and added up without any of the engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from multiprocessing import get_context

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tests.bench.orders import Orders
from tests.bench.report.rows import (
    PAIRS,
    Rows,
    columns,
    difference,
    pair_row,
    sale,
    total_row,
    wanted_pairs,
    wanted_totals,
)
from tests.bench.workloads import PARTITIONS, Query

__all__ = ["messages", "wrong_pairs", "wrong_totals"]

_AT_ONCE = 10_000
_KEPT = 4  # peers take turns on the same input

Read = Callable[[dict[str, str], str, int], Rows]


def wrong_totals(
    client: Mapping[str, str], source: str, sink: str, query: Query, records: int
) -> str:
    """Why the table in topic `sink` is not that of the `records` in `source`; empty when it is.

    Raises:
        ValueError: a record of the sink is no row of such a table.
    """
    there, wanted = _wanted(tuple(sorted(client.items())), source, query)
    if there != records:
        return f"its input holds {there:,} records, not {records:,}"
    found = _of_topic(client, sink, partial(_totals, query))
    return difference(found, wanted, columns(query))


def wrong_pairs(client: Mapping[str, str], sink: str, orders: Orders) -> str:
    """The same of the join of `orders` with their payments."""
    return difference(_of_topic(client, sink, _pairs), wanted_pairs(orders), PAIRS)


@lru_cache(_KEPT)
def _wanted(client: tuple[tuple[str, str], ...], source: str, query: Query) -> tuple[int, Rows]:
    """How many records the input holds, those that WHERE drops included; the table's rows."""
    sales = _of_topic(dict(client), source, _sales)
    return len(sales), wanted_totals(query, sales)


def _of_topic(client: Mapping[str, str], topic: str, read: Read) -> Rows:
    """The rows of all topic partitions, each read as read_committed readers see it."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(read, dict(client), topic, p) for p in range(PARTITIONS)]
        return np.vstack([job.result() for job in jobs])


def _sales(client: dict[str, str], topic: str, partition: int) -> Rows:
    rows = (sale(m.value(), m.timestamp()[1]) for m in messages(client, topic, partition))
    return _array(rows, 4)


def _totals(query: Query, client: dict[str, str], topic: str, partition: int) -> Rows:
    """The last result of each key; a tombstone ends it."""
    last = {m.key(): m.value() for m in messages(client, topic, partition)}
    rows = (total_row(query, key, value) for key, value in last.items() if value is not None)
    return _array(rows, len(columns(query)))


def _pairs(client: dict[str, str], topic: str, partition: int) -> Rows:
    rows = (pair_row(m.key(), m.value()) for m in messages(client, topic, partition))
    return _array(rows, len(PAIRS))


def _array(rows: Iterator[tuple[int, ...]], width: int) -> Rows:
    flat = np.fromiter((value for row in rows for value in row), np.int64)
    return flat.reshape(-1, width)


def messages(client: dict[str, str], topic: str, partition: int) -> Iterator[Message]:
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
