"""Limits on the size of records, and the error for a transaction that exceeds one.

There are two limits: the producer's `message.max.bytes`, for a record before compression, and the
topic's `max.message.bytes`, for a compressed batch.  Our producers' limit is wide, so that the
topic's decides: a record that a source topic accepted can be written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import HoldfastError, RecordTooLarge
from holdfast.transport.cluster.admin_cache import shared_admin

__all__ = [
    "TOPIC_LIMIT",
    "TOPIC_LIMIT_DEFAULT",
    "Headers",
    "Sent",
    "Sizes",
    "producer_limit",
    "record_bytes",
    "size_limits",
    "too_large",
    "with_batches",
]

TOPIC_LIMIT = "max.message.bytes"
PRODUCER_LIMIT = "message.max.bytes"
_BATCH_LIMIT = "batch.size"
_BATCH_BYTES = 262_144  # the size of our producers' batches, before compression
TOPIC_LIMIT_DEFAULT = 1_048_588  # Kafka's default
_PRODUCER_MAX = 64_000_000
_QUEUE_KBYTES = 65_536  # one producer per open state partition
_QUEUE_SPARE_KBYTES = 1_024  # a record larger than the queue would wait for ever
_BATCH_HEADER = 61
# The most bytes of a record's length, attributes, time, offset, key and value lengths, headers.
_AROUND = _BATCH_HEADER + 35
_HEADER_LENGTHS = 10  # the most bytes of one header's name and value lengths
_KEY_SHOWN = 100
Headers = Iterable[tuple[str, str | bytes | None]]


def size_limits(client: Mapping[str, str]) -> dict[str, int]:
    """A producer's size limits, unless the client's properties override them."""
    largest_kbytes = producer_limit(client) // 1_024
    return {
        PRODUCER_LIMIT: _PRODUCER_MAX,
        _BATCH_LIMIT: _BATCH_BYTES,
        "queue.buffering.max.kbytes": max(_QUEUE_KBYTES, largest_kbytes + _QUEUE_SPARE_KBYTES),
    }


def producer_limit(client: Mapping[str, str]) -> int:
    """The largest record, in uncompressed bytes, that the client's producers accept."""
    asked = client.get(PRODUCER_LIMIT, "")
    return int(asked) if asked.isdecimal() else _PRODUCER_MAX


def with_batches(client: Mapping[str, str], limit: int) -> dict[str, str]:
    """Properties of a producer whose batches do not exceed a topic's limit."""
    asked = client.get(_BATCH_LIMIT, "")
    batch = int(asked) if asked.isdecimal() else _BATCH_BYTES
    return {**client, _BATCH_LIMIT: str(max(1, min(batch, limit)))}


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
    """The most uncompressed bytes of a batch with this record only."""
    return _AROUND + len(key or b"") + len(value or b"") + _headers_bytes(headers)


def _headers_bytes(headers: Headers) -> int:
    return sum(
        len(name.encode())
        + len(text.encode() if isinstance(text, str) else text or b"")
        + _HEADER_LENGTHS
        for name, text in headers
    )


@dataclass(frozen=True)
class Sent:
    """A record's place, its key, and the size of key, value and headers."""

    topic: str
    partition: int
    key: bytes | None
    size: int

    @classmethod
    def of(
        cls,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
    ) -> Sent:
        """The sizes of a record."""
        size = len(key or b"") + len(value or b"") + _headers_bytes(headers)
        return cls(topic, partition, key, size)


class Sizes:
    """Tracks the largest record of the open transaction for each topic."""

    def __init__(self) -> None:
        self._largest: dict[str, Sent] = {}

    def clear(self) -> None:
        """Starts a new transaction."""
        self._largest.clear()

    def of(self, topic: str) -> Sent | None:
        """The largest record that was sent to a topic."""
        return self._largest.get(topic)

    def topics(self) -> list[str]:
        """The topics of the transaction's records."""
        return list(self._largest)

    def add(self, record: Sent) -> None:
        """Adds a record to be sent."""
        last = self._largest.get(record.topic)
        if last is None or record.size > last.size:
            self._largest[record.topic] = record

    def add_all(
        self,
        topic: str,
        partitions: Sequence[int],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Adds records to be sent, at least one."""
        last = self._largest.get(topic)
        # Fast path for small records: two maxima in C show that none is larger.
        if last is not None and _longest(keys) + _longest(values) <= last.size:
            return
        sizes = [len(k or b"") + len(v or b"") for k, v in zip(keys, values, strict=True)]
        at = sizes.index(max(sizes))
        self.add(Sent(topic, partitions[at], keys[at], sizes[at]))


def _longest(columns: Sequence[bytes | None]) -> int:
    return max(map(len, filter(None, columns)), default=0)


def too_large(
    client: Mapping[str, str], who: str, sizes: Sizes, refused: Sent | None = None
) -> RecordTooLarge:
    """The error for a transaction with a record, or a batch of records, beyond a limit.

    Args:
        client: the producer's properties.
        who: ends the fact: " as <transactional id>".
        sizes: the sizes of the transaction's records.
        refused: the record, if the client itself has refused it.
    """
    known = {topic: _topic_limit(client, topic) for topic in sizes.topics()}
    if refused is None:
        refused = _beyond(sizes, known)
    if refused is None:
        return _batch_too_large(client, who, known)
    limit = known.get(refused.topic) or _topic_limit(client, refused.topic)
    producer = producer_limit(client)
    key = "null" if refused.key is None else repr(refused.key[:_KEY_SHOWN])
    return RecordTooLarge(
        f"A record for topic {refused.topic} partition {refused.partition} with key {key} has "
        f"{refused.size} bytes, more than can be written{who}: {TOPIC_LIMIT}="
        f"{limit or 'unknown'} of the topic, {PRODUCER_LIMIT}={producer} of the producer.",
        cause="its key has collected too much (a list, a map, a long text), or one input record is "
        "nearly as large as its own topic allows.",
        action=_action(refused, limit, producer),
    )


def _action(record: Sent, limit: int | None, producer: int) -> str:
    wanted = record.size * 2
    raise_topic = (
        f"raise {TOPIC_LIMIT} of the topic {record.topic} (`kafka-configs.sh --alter --topic "
        f"{record.topic} --add-config {TOPIC_LIMIT}={wanted}`)"
    )
    raise_client = f"set kafka.{PRODUCER_LIMIT}={wanted}"
    over_client = record.size > producer
    over_topic = limit is None or _AROUND + record.size > limit
    steps = [raise_client] if over_client else []
    steps += [raise_topic] if over_topic or not over_client else []
    return (
        f"{' and '.join(steps)}, or keep less per key. Then the query goes on from its commit "
        "markers: by itself if its job runs, else when that is started again. This partition did "
        "not commit the batch, commits of others stay."
    )


def _beyond(sizes: Sizes, limits: Mapping[str, int | None]) -> Sent | None:
    """The record that exceeds its topic's limit; the largest of all if no limit is known."""
    found = [sent for topic in sizes.topics() if (sent := sizes.of(topic)) is not None]
    found.sort(key=lambda sent: sent.size, reverse=True)
    for sent in found:
        limit = limits.get(sent.topic)
        if limit is not None and _BATCH_HEADER + sent.size > limit:
            return sent
    unknown = [sent for sent in found if limits.get(sent.topic) is None]
    return unknown[0] if unknown else None


def _batch_too_large(
    client: Mapping[str, str], who: str, limits: Mapping[str, int | None]
) -> RecordTooLarge:
    batch = client.get(_BATCH_LIMIT, str(_BATCH_BYTES))
    told = ", ".join(f"{TOPIC_LIMIT}={limit} of topic {t}" for t, limit in sorted(limits.items()))
    least = min((limit for limit in limits.values() if limit is not None), default=0)
    return RecordTooLarge(
        f"A batch of records exceeds its topic's limit{who}: {_BATCH_LIMIT}={batch} of the "
        f"producer, {told}.",
        cause="each record fits, but several together do not.",
        action=f"raise {TOPIC_LIMIT} of the topic: a running job goes on by itself; or set "
        f"kafka.{_BATCH_LIMIT}={least}, and start the job again, which continues from its commit "
        "markers.",
    )


def _topic_limit(client: Mapping[str, str], topic: str) -> int | None:
    """The topic's limit; None if unknown: no permission, no broker, no such topic."""
    try:
        found = shared_admin(client).config(topic).get(TOPIC_LIMIT)
    except HoldfastError:
        return None
    return int(found) if found is not None else None
