"""The plain idempotent producer, and the creation of every producer's client."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
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
    "linger.ms": 10,  # lets batches grow; a flush does not wait for it
    "queue.buffering.max.messages": 100_000,
}
_RETRY_S = 0.1
_GRACE_S = 10.0
_REFUSAL_S = 2.0
_POLL_S = 0.05
_QUIET = {"log_level": 0}
PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
POLL_EVERY = 10_000  # records between two polls for delivery reports


def open_client(client: Mapping[str, str], fixed: Mapping[str, Any]) -> Client:
    """Creates a client with our defaults.

    Raises:
        InvalidConfig: the client refuses a property.
    """
    try:
        return Client(client_config(client, _DEFAULTS | size_limits(client), fixed))
    except KafkaException as error:
        raise refused_properties(error) from error


def place_of(message: Message) -> str:
    """The target of a record, for messages."""
    partition = message.partition()
    return f"{message.topic()}" + ("" if partition is None else f" partition {partition}")


def same_length(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], *columns: object
) -> None:
    """Checks that all columns have the same length.

    Raises:
        ValueError: they differ in length.
    """
    lengths = [len(keys), len(values)]
    lengths += [len(c) for c in columns if isinstance(c, Sequence)]
    if len(set(lengths)) > 1:
        raise ValueError(f"columns of {lengths} records: they must be equal")


def client_time(time_ms: int | None) -> int:
    """A record's time for the client, for which 0 means "now".

    So time 0 is written as 1 (ADR 39); None stands for now.
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
    """Queues records without delivery reports, which cost more than queueing.

    Yields:
        The number of each record that the client refuses, and the error; then it continues with
        the next record.
    """
    behind = iter(values)
    # Keyword arguments would cost a fifth of the call, a Python loop a tenth.
    calls = map(
        client.produce,
        repeat(topic), behind, keys, partitions, repeat(None), repeat(None), times_ms,
    )  # fmt: skip
    while True:
        try:
            deque(calls, maxlen=0)
        except (BufferError, KafkaException) as error:
            yield len(values) - length_hint(behind) - 1, error  # the value was consumed already
        else:
            return


class Producer:
    """A plain idempotent producer: the records of a key stay in order and arrive once.

    It partitions keys like Java producers (murmur2).  Not thread-safe.
    """

    def __init__(
        self, client: Mapping[str, str], timeout_ms: int = 60_000, *, idempotent: bool = True
    ) -> None:
        """Sends nothing before the first record.

        Args:
            client: the client's properties.
            timeout_ms: how long a record may take.
            idempotent: False if a record may arrive twice; a refusal by the broker then only fails
                that record, not the client.

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
        """Queues one record, waiting if the queue is full.

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
                acl = f"WRITE on topic {topic}"
                raise translate(error, f"sending to {topic}", self._properties, acl) from error
            else:
                return

    def delivered(self) -> int:
        """How many records have arrived so far.

        Raises:
            Refused: the broker has refused this client.
        """
        self._served(lambda: self._client.poll(0))
        return self._delivered

    def failed(self) -> int:
        """How many records have failed for good."""
        return self._lost

    def flush(self) -> None:
        """Waits until every record is delivered.

        Raises:
            KafkaUnavailable, TopicMissing, Refused: a record could not be delivered.
        """
        # By then every record is reported: delivered, or failed after message.timeout.ms.
        left = self._served(lambda: self._client.flush(self._timeout_s + _GRACE_S))
        self._check()
        if left:
            raise silent(f"delivering {left} records", self._properties, self._timeout_s)

    def close(self) -> None:
        """Drops undelivered records and closes the connection; call `flush` first.

        The producer must not be used again.
        """
        self._client.purge()
        with suppress(KafkaException, SystemError):  # see `_served`
            self._client.poll(0)

    def _served(self, call: Callable[[], int]) -> int:
        """Runs the client's callbacks; it raises fatal errors, sometimes hidden by others.

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
        """The error for which the client dropped its records, if it was lost in `_served`.

        A second client with the same properties is refused for the same reason.  It has no records
        whose reports could hide the error, and logs nothing.
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
    """The client's exception, found beneath those of callbacks (log, report) that ran after it."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KafkaException):
        found = found.__cause__ or found.__context__
    return found
