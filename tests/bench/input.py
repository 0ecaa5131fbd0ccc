"""The input topics: records made from a seed, written once, in event-time order.

Events are milliseconds apart, the last one about now: brokers judge retention by record time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer

from holdfast.transport.partitioner import murmur2_partitions
from tests.bench.encoded import Encode
from tests.bench.orders import LAST_MS, Orders
from tests.bench.workloads import PARTITIONS, Input

__all__ = ["SEED", "Record", "drawn", "made", "records", "write"]

SEED = 7
_CHUNK = 50_000
_PRODUCER = {
    "compression.type": "lz4",
    "linger.ms": 50,
    "batch.size": 262_144,
    "queue.buffering.max.messages": 400_000,
    "enable.idempotence": True,
}

_STEP = 61_803_399  # of a walk through all customers; it has no divisor in common with 10

Whole = npt.NDArray[np.int64]
Record = tuple[bytes, bytes, int]
"""Key (the customer), value, event time in ms."""


def made(
    spec: Input, count: int, last_ms: int, encode: Encode | None = None
) -> list[tuple[str, Iterator[list[Record]]]]:
    """The records of an input by topic: `count` in all, none later than `last_ms`.

    `encode`: of an input of one topic that is not in JSON.
    """
    if len(spec.topics) == 1:
        first_ms = last_ms - count * spec.every_ms
        return [(spec.topics[0], records(spec, count, first_ms, encode=encode))]
    each = count // len(spec.topics)
    found = Orders.made(spec, each, SEED)
    first_ms = last_ms - each * spec.every_ms - LAST_MS
    orders, payments = spec.topics
    return [(orders, found.orders(first_ms)), (payments, found.payments(first_ms))]


def records(
    spec: Input, count: int, first_ms: int, seed: int = SEED, encode: Encode | None = None
) -> Iterator[list[Record]]:
    """Chunks of at most 50,000 records; the same for the same arguments."""
    at = 0
    for columns in drawn(spec, count, seed):
        customers, amounts, titles = (column.tolist() for column in columns)
        times = [first_ms + n * spec.every_ms for n in range(at, at + len(customers))]
        at += len(customers)
        yield [
            _record(*fields, encode or _json)
            for fields in zip(customers, amounts, titles, times, strict=True)
        ]


def drawn(spec: Input, count: int, seed: int = SEED) -> Iterator[tuple[Whole, Whole, Whole]]:
    """The same records as numbers: customers, amounts and titles of each chunk."""
    generator = np.random.default_rng(seed)
    draw = _customers(spec, generator)
    for at in range(0, count, _CHUNK):
        size = min(_CHUNK, count - at)
        customers = draw(size)
        amounts = generator.integers(1, 100, size)
        titles = generator.integers(0, spec.titles, size)
        if spec.hot:
            titles[generator.random(size) < spec.hot] = 0
        if spec.each_first and at < spec.keys:
            once = _once(spec.keys, at, size)
            customers[: len(once)] = once
        yield customers, amounts, titles


def _record(customer: int, amount: int, title: int, ts: int, encode: Encode) -> Record:
    key = b"c%08d" % customer
    return key, encode(key, amount, b"Movie %05d" % title, ts), ts


def _json(customer: bytes, amount: int, title: bytes, ts: int) -> bytes:
    fields = (customer, amount, title, ts)
    return b'{"customer":"%b","amount":%d,"title":"%b","ts":%d}' % fields


def _once(keys: int, at: int, size: int) -> Whole:
    """The next of all `keys`, each once, far from the one before; `keys` is a power of ten."""
    return np.arange(at, min(at + size, keys), dtype=np.int64) * _STEP % keys


def _customers(spec: Input, generator: np.random.Generator) -> Callable[[int], Whole]:
    if not spec.skew:
        return lambda size: generator.integers(0, spec.keys, size)
    weights = np.arange(1, spec.keys + 1, dtype=np.float64) ** -spec.skew
    cumulative = np.cumsum(weights) / weights.sum()
    return lambda size: np.searchsorted(cumulative, generator.random(size)).astype(np.int64)


def write(
    client: Mapping[str, str],
    topic: str,
    chunks: Iterator[list[Record]],
    tell: Callable[[int], object],
) -> None:
    """Writes every chunk, keys placed as Java producers place them, and waits for delivery.

    `tell` is told how many are on their way.

    Raises:
        RuntimeError: records were not delivered.
    """
    lost: list[object] = []
    sent = 0
    producer = Producer({**client, **_PRODUCER, "error_cb": lost.append})
    for chunk in chunks:
        places = murmur2_partitions([key for key, _, _ in chunk], PARTITIONS)
        for (key, value, ts), place in zip(chunk, places, strict=True):
            _send(producer, topic, key, value, place, ts)
        producer.poll(0)
        sent += len(chunk)
        tell(sent)
    left = producer.flush(120)
    if left or lost:
        raise RuntimeError(f"{left} records of {topic} were not delivered: {lost[:1]}")


def _send(producer: Producer, topic: str, key: bytes, value: bytes, place: int, ts: int) -> None:
    while True:
        try:
            producer.produce(topic, value, key, place, timestamp=ts)
        except BufferError:
            producer.poll(0.1)
        else:
            return
