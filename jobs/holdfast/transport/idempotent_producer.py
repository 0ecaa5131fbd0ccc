"""The plain idempotent producer, and how every producer's client is opened."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from holdfast.transport.errors import (
    client_config,
    kafka_error,
    refused_properties,
    silent,
    translate,
)
from holdfast.transport.sizes import size_limits

__all__ = [
    "FIRST_MS",
    "NOW",
    "POLL_EVERY",
    "PURGED",
    "Client",
    "Producer",
    "client_time",
    "open_client",
    "place_of",
    "refused",
    "same_length",
]

_DEFAULTS: dict[str, Any] = {
    "compression.type": "lz4",
    "linger.ms": 10,  # a flush does not wait for it; until then batches grow
    "queue.buffering.max.messages": 100_000,
}
_RETRY_S = 0.1
_GRACE_S = 10.0
_REFUSAL_S = 2.0
_POLL_S = 0.05
_QUIET = {"log_level": 0}
PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
POLL_EVERY = 10_000  # records between two looks at delivery reports


def open_client(client: Mapping[str, str], fixed: Mapping[str, Any]) -> Client:
    """A client with our defaults.

    Raises:
        InvalidConfig: the client refuses a property.
    """
    try:
        return Client(client_config(client, _DEFAULTS | size_limits(client), fixed))
    except KafkaException as error:
        raise refused_properties(error) from error


def place_of(message: Message) -> str:
    """Where a record was to go, for messages."""
    partition = message.partition()
    return f"{message.topic()}" + ("" if partition is None else f" partition {partition}")


def same_length(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], *columns: object
) -> None:
    """Refuse columns of records that differ in length.

    Raises:
        ValueError: they do.
    """
    lengths = [len(keys), len(values)]
    lengths += [len(c) for c in columns if isinstance(c, Sequence)]
    if len(set(lengths)) > 1:
        raise ValueError(f"columns of {lengths} records: they must be equal")


def client_time(time_ms: int | None) -> int:
    """A record's time as the client takes it: 0 means "now" to it, and it has no word for 0.

    So the first millisecond of all is written as the one after it (ADR 39); None stands for now.
    """
    return NOW if time_ms is None else time_ms or FIRST_MS


NOW, FIRST_MS = 0, 1


def refused(
    client: Client,
    topic: str,
    partitions: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    times_ms: Sequence[int],
) -> Iterator[tuple[int, BufferError | KafkaException]]:
    """Queue records without delivery reports, which cost more than queueing.

    Yields:
        The number of each record that the client did not take, and why; the next is tried after.
    """
    behind = iter(values)
    # Names of arguments would cost a fifth of the call, a loop of Python's a tenth.
    calls = map(
        client.produce,
        repeat(topic), behind, keys, partitions, repeat(None), repeat(None), times_ms,
    )  # fmt: skip
    while True:
        try:
            deque(calls, maxlen=0)
        except (BufferError, KafkaException) as error:
            yield len(values) - length_hint(behind) - 1, error  # it had taken its value
        else:
            return


class Producer:
    """A plain idempotent producer: records of one key stay in order and arrive once.

    Keys go where Java producers put them (murmur2).  Not thread-safe.
    """

    def __init__(
        self, client: Mapping[str, str], timeout_ms: int = 60_000, *, idempotent: bool = True
    ) -> None:
        """Nothing is sent before the first record.

        Args:
            client: the client's properties.
            timeout_ms: how long a record may take.
            idempotent: False where a record may come twice: what the broker refuses is then an
                answer to that record, not the end of the client.

        Raises:
            InvalidConfig: the client refuses a property.
        """
        self._properties = dict(client)
        self._timeout_s = timeout_ms / 1000
        fixed = {
            "enable.idempotence": idempotent,
            "acks": "all",
            "partitioner": "murmur2_random",
            "message.timeout.ms": timeout_ms,
        }
        self._client = open_client(client, fixed)
        self._failed: tuple[KafkaError, Message] | None = None
        self._count, self._topic = 0, ""
        self._delivered = self._lost = 0

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
        *,
        headers: Mapping[str, str | bytes | None] | None = None,
    ) -> None:
        """Queue one record, waiting when the queue is full.

        Raises:
            KafkaUnavailable, TopicMissing, Refused: an earlier record could not be delivered.
        """
        place = -1 if partition is None else partition
        self._count, self._topic = self._count + 1, topic
        if self._count % POLL_EVERY == 0:
            self._served(lambda: self._client.poll(0))
        while True:
            self._check()
            try:
                self._client.produce(
                    topic,
                    value,
                    key,
                    place,
                    on_delivery=self._on_delivery,
                    timestamp=client_time(timestamp_ms),
                    headers=dict(headers or {}),
                )
            except BufferError:
                self._served(lambda: self._client.poll(_RETRY_S))
            except KafkaException as error:
                raise translate(error, f"sending to {topic}", self._properties) from error
            else:
                return

    def delivered(self) -> int:
        """How many records have arrived so far."""
        self._client.poll(0)
        return self._delivered

    def failed(self) -> int:
        """How many will not arrive any more."""
        return self._lost

    def flush(self) -> None:
        """Wait until every record is delivered.

        Raises:
            KafkaUnavailable, TopicMissing, Refused: a record could not be delivered.
        """
        # Every record is reported by then: delivered, or failed after message.timeout.ms.
        left = self._served(lambda: self._client.flush(self._timeout_s + _GRACE_S))
        self._check()
        if left:
            raise silent(f"delivering {left} records", self._properties, self._timeout_s)

    def close(self) -> None:
        """Drop what is not delivered and leave the broker; call `flush` first.

        The producer must not be used again.
        """
        self._client.purge()
        self._client.poll(0)

    def _served(self, call: Callable[[], int]) -> int:
        """Let the client call back; it raises a fatal error from inside, as it is or hidden.

        See `TransactionalProducer._served`.
        """
        try:
            return call()
        except (KafkaException, SystemError) as error:
            fatal = _uncovered(error)
            if fatal is None:
                self._check()
            acl = f"WRITE on topic {self._topic}"
            found = kafka_error(fatal or error)
            doing = f"sending to {self._topic}"
            raise translate(found, doing, self._properties, acl) from error

    def _check(self) -> None:
        if self._failed is not None:
            error, message = self._failed
            where, acl = place_of(message), f"WRITE on topic {message.topic()}"
            if error.code() in PURGED:
                error = self._refusal() or error
            raise translate(error, f"delivering a record to {where}", self._properties, acl)

    def _refusal(self) -> KafkaError | None:
        """Why the client dropped its records, when what it said got lost (`_served`).

        A client with the same properties is refused for the same reason.  It has no records whose
        reports could hide that, and no log lines.
        """
        asker = Client(client_config(self._properties, {}, {"enable.idempotence": True}) | _QUIET)
        deadline = time.monotonic() + _REFUSAL_S
        try:
            while time.monotonic() < deadline:
                asker.poll(_POLL_S)
        except KafkaException as error:
            return kafka_error(error)
        return None

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._delivered += 1
            return
        self._lost += 1
        if self._failed is None:
            self._failed = (error, message)


def _uncovered(error: BaseException) -> KafkaException | None:
    """The client's exception under those of each callback (log line, report) that ran after it."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KafkaException):
        found = found.__cause__ or found.__context__
    return found
