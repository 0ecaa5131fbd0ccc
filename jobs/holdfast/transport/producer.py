"""The transactional producer: one transaction at a time, for state tasks and stateless queries.

A `TransactionalProducer` that has raised anything but a `ValueError` must be closed and replaced:
the client does not know the broker's state (librdkafka #5423), only `init` of a new one finds out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message

from holdfast.errors import CommitUnknown, Fenced, HoldfastError
from holdfast.transport.errors import (
    SOCKET_TIMEOUT_MS,
    kafka_error,
    silent,
    translate,
)
from holdfast.transport.idempotent_producer import (
    FIRST_MS,
    NOW,
    POLL_EVERY,
    PURGED,
    Client,
    Producer,
    client_time,
    open_client,
    place_of,
    refused,
    same_length,
)
from holdfast.transport.sizes import Sent, Sizes, too_large
from holdfast.types.columns.pieces import PIECE

__all__ = ["Producer", "TransactionalProducer"]

_RETRY_S = 0.1
# The timeout of the first `init` call.  A sixth of new clients lose their first connection while
# they look for the coordinator, and retry after half a second; a new call retries at once.
_FIRST_TRY_S = 0.1
_ABORT_S = 5.0
_LOOK_S = 0.5  # how often a wait for deliveries checks whether the transaction is lost
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})


class TransactionalProducer:
    """Owns one transactional id at one producer epoch, and the fate of its open transaction.

    Steps 0 (`init`) and 2 to 4 (`begin` to `commit`) of the commit order.  Not thread-safe.
    """

    def __init__(
        self, client: Mapping[str, str], transactional_id: str, timeout_ms: int = 60_000
    ) -> None:
        """Sends nothing before `init`.

        Args:
            client: librdkafka properties; those for exactly-once are overridden.
            timeout_ms: for the whole transaction on the broker, and for `init` and `commit` here.

        Raises:
            InvalidConfig: the client refuses a property.
        """
        self.transactional_id = transactional_id
        self._properties = dict(client)
        self._timeout_s = timeout_ms / 1000
        fixed = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "socket.timeout.ms": min(SOCKET_TIMEOUT_MS, timeout_ms),  # required by the client
            "enable.idempotence": True,
            "acks": "all",
        }
        self._handle: Client | None = open_client(client, fixed)
        self._failed: HoldfastError | None = None  # the error by which a transaction was lost
        self._refused = False  # records of the transaction are too large
        self._purged = False  # the client has dropped records of the open transaction
        self._in_transaction = False
        self._highest: dict[str, int] = {}  # the highest partition sent to, by topic
        self._sizes = Sizes()
        self._marked = False
        self._marker_offset: int | None = None

    def init(self) -> None:
        """Step 0: takes the transactional id and fences every older producer with it.

        Raises:
            KafkaUnavailable: no answer within the timeout.
            Refused: not allowed, or the broker does not accept the timeout.
        """
        doing = "taking its transactional id"
        deadline, try_s = time.monotonic() + self._timeout_s, _FIRST_TRY_S
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                return self._client.init_transactions(min(left_s, try_s))
            except KafkaException as error:
                if _final(error):
                    raise self._error(error, doing) from error
                if kafka_error(error).code() != KafkaError._TIMED_OUT:
                    time.sleep(_RETRY_S)
            try_s *= 2
        raise silent(doing + self._as(), self._properties, self._timeout_s)

    def begin(self) -> None:
        """Opens a transaction.

        Raises:
            Fenced: another producer took the transactional id.
        """
        self._check_deliveries()
        self._marked, self._marker_offset, self._purged = False, None, False
        self._sizes.clear()
        try:
            self._client.begin_transaction()
        except KafkaException as error:
            raise self._error(error, "opening a transaction") from error
        self._in_transaction = True

    def send(
        self,
        topic: str,
        partitions: int | Sequence[int],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: int | Sequence[int] | None = None,
    ) -> None:
        """Queues records of the open transaction; `commit` raises delivery errors at the latest.

        Args:
            partitions: the topic partition of all records, or one per record.
            keys: one per record.
            values: one per record; None is a tombstone.
            timestamps_ms: the time of all records or one per record; None: the time of sending.  0
                is written as 1, see `client_time`.

        Raises:
            ValueError: the columns differ in length.
            Fenced, KafkaUnavailable, TopicMissing, Refused: the transaction is lost.
        """
        same_length(keys, values, partitions, timestamps_ms)
        if not keys:
            return
        highest = partitions if isinstance(partitions, int) else max(partitions)
        self._highest[topic] = max(highest, self._highest.get(topic, 0))
        for start in range(0, len(keys), PIECE):
            part = slice(start, start + PIECE)
            names, rows = keys[part], values[part]
            places = [partitions] * len(rows) if isinstance(partitions, int) else partitions[part]
            times = _times(timestamps_ms, part, len(rows))
            self._sizes.add_all(topic, places, names, rows)
            # Undeliverable records have no report; they make the commit fail with the reason.
            for n, error in refused(self._client, topic, places, names, rows, times):
                self._make_room(error, Sent.of(topic, places[n], names[n], rows[n]))
                self._again(topic, rows[n], names[n], places[n], times[n])
            if start % POLL_EVERY == 0:
                self._served(lambda: self._client.poll(0), f"sending to {topic}")
        self._check_deliveries()

    def send_one(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, str | bytes | None]],
        time_ms: int | None = None,
    ) -> None:
        """Queues one record of the open transaction, with headers; default time: of sending.

        Raises:
            Fenced, KafkaUnavailable, TopicMissing, Refused: the transaction is lost.
        """
        at = client_time(time_ms)
        self._again(topic, value, key, partition, at, headers=list(headers))

    def send_marker(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        """Step 3: queues the commit marker; `commit` returns its offset.

        Raises:
            Fenced, KafkaUnavailable, TopicMissing, Refused: the transaction is lost.
        """
        self._marked = True
        self._again(topic, value, key, partition, NOW, self._on_marker)

    def commit(self) -> int | None:
        """Step 4: delivers all records and commits; all or none become visible.

        Returns:
            The offset of the commit marker; None if none was sent.

        Raises:
            CommitUnknown: the broker did not answer in time, so the outcome is unknown.
            Fenced: another producer took over; nothing was committed.
            KafkaUnavailable: the transaction was aborted and can be retried.
            TopicMissing, Refused: the transaction was aborted; a retry would not help.
        """
        self.deliver()
        self._in_transaction = False  # from here on the broker decides the outcome
        self._end()
        if self._marked and self._marker_offset is None:
            raise self._unknown()
        return self._marker_offset

    def deliver(self) -> None:
        """Waits until all records of the open transaction are in their logs.

        Raises:
            Fenced, KafkaUnavailable, TopicMissing, Refused: the transaction is lost.
        """
        deadline = time.monotonic() + self._timeout_s
        while left := self._flush(min(_LOOK_S, self._timeout_s)):
            self._check_deliveries()
            self._check_lost()
            if time.monotonic() > deadline:
                break
        self._check_deliveries()
        if self._purged:
            self._end()  # the transaction is lost, and this raises the reason
        if left:
            self.abort()
            raise silent(
                f"delivering {left} records{self._as()}", self._properties, self._timeout_s
            )

    def _flush(self, seconds: float) -> int:
        """Flushes for that time; returns how many records are not delivered then."""
        return self._served(lambda: self._client.flush(seconds), "delivering records")

    def _check_lost(self) -> None:
        """Raises if the transaction can no longer be committed.

        Records queued after one that the broker refused are never sent, and so never reported.  The
        client only reports the error to a call that begins a transaction.
        """
        try:
            self._client.begin_transaction()
        except KafkaException as error:
            if _final_for_transaction(error):
                raise self._error(error, "delivering records") from error

    def abort(self) -> None:
        """Aborts the open transaction if possible; never raises, never hides an error.

        Otherwise the broker aborts it, at the next `init` or after the timeout.
        """
        self._in_transaction = False
        with suppress(KafkaException, SystemError):  # for SystemError see `_served`
            self._client.abort_transaction(_ABORT_S)

    def close(self) -> None:
        """Closes the client; aborts an open transaction like `abort`.  Never raises.

        May be called again; no other method may.
        """
        if self._handle is None:
            return
        if self._in_transaction:
            self.abort()
        # Not the client's own close(), which waits for ever for a broker that does not answer.
        self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _client(self) -> Client:
        if self._handle is None:
            raise Fenced(
                f"The producer{self._as()} is closed.", action="reopen the state partition."
            )
        return self._handle

    def _again(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        time_ms: int,
        report: Callable[[KafkaError | None, Message], None] | None = None,
        **more: Any,
    ) -> None:
        """Queues one record, waiting for room until the transaction times out."""
        deadline = time.monotonic() + self._timeout_s
        look = time.monotonic() + _LOOK_S
        self._highest.setdefault(topic, partition)
        record = Sent.of(topic, partition, key, value, more.get("headers", ()))
        self._sizes.add(record)
        while True:
            try:
                self._client.produce(
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery=report or self._on_delivery,
                    timestamp=time_ms,
                    **more,
                )
            except (BufferError, KafkaException) as error:
                self._make_room(error, record)
                if time.monotonic() > look:
                    self._check_lost()
                    look = time.monotonic() + _LOOK_S
                if time.monotonic() > deadline:
                    self.abort()
                    raise silent(
                        f"taking records of {topic}{self._as()}", self._properties, self._timeout_s
                    ) from error
            else:
                return

    def _make_room(self, error: BufferError | KafkaException, record: Sent) -> None:
        """Waits for deliveries if the queue is full; any other error ends the transaction."""
        doing = f"sending to {record.topic} partition {record.partition}"
        if isinstance(error, KafkaException):
            self._check_deliveries()
            self._check_lost()
            if kafka_error(error).code() == KafkaError._STATE:
                self._end()  # the transaction has failed before, and this raises the reason
            raise self._error(error, doing, record) from error
        self._served(lambda: self._client.poll(_RETRY_S), doing)
        self._check_deliveries()

    def _served(self, call: Callable[[], int], doing: str) -> int:
        """Runs the client's callbacks.

        The client raises a fatal error (such as fencing) from inside `poll` and `flush`; a delivery
        report that runs at the same moment turns it into a SystemError, with or without the cause.
        Then `abort_transaction` returns the original error.
        """
        try:
            return call()
        except KafkaException as error:
            raise self._error(error, doing) from error
        except SystemError as error:
            raise self._autopsy(doing) from error

    def _autopsy(self, doing: str) -> HoldfastError:
        try:
            self._client.abort_transaction(_ABORT_S)
        except KafkaException as error:
            return self._error(error, doing)
        return silent(doing + self._as(), self._properties, self._timeout_s)

    def _end(self) -> None:
        """Commits until the broker answers; after a timed-out try only success is certain."""
        deadline, uncertain = time.monotonic() + self._timeout_s, False
        while True:
            try:
                self._client.commit_transaction(max(deadline - time.monotonic(), _RETRY_S))
            except KafkaException as error:
                final = _final(error)
                if final and not uncertain:
                    raise self._error(error, "committing") from error
                if final or time.monotonic() >= deadline:
                    raise self._unknown() from error
                uncertain = uncertain or kafka_error(error).code() == KafkaError._TIMED_OUT
                time.sleep(_RETRY_S)
            else:
                return

    def _error(
        self, error: KafkaException, doing: str, record: Sent | None = None
    ) -> HoldfastError:
        """Aborts if possible and returns the translated error; `record`: the refused record."""
        found: HoldfastError
        if kafka_error(error).code() in _TOO_LARGE:
            found = self._too_large(record)
        else:
            found = self._misplaced(error) or self._translated(error, doing)
        if kafka_error(error).txn_requires_abort():
            self._failed = self._failed or found
            self.abort()
        return found

    def _too_large(self, record: Sent | None = None) -> HoldfastError:
        return too_large(self._properties, self._as(), self._sizes, record)

    def _translated(self, error: KafkaError | KafkaException, doing: str) -> HoldfastError:
        inner = kafka_error(error) if isinstance(error, KafkaException) else error
        acl = f"WRITE on topic {', '.join(self._highest)}"
        if inner.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            acl = f"WRITE on transactional id {self.transactional_id}"
        return translate(inner, doing + self._as(), self._properties, acl)

    def _misplaced(self, error: KafkaException) -> HoldfastError | None:
        """The error for records to a missing topic partition, which the client does not report."""
        if kafka_error(error).code() != KafkaError._INCONSISTENT:
            return None
        for topic, highest in self._highest.items():
            try:
                found = self._client.list_topics(topic, timeout=_ABORT_S).topics[topic]
            except KafkaException:  # then the original error is raised
                return None
            missing = KafkaError(KafkaError._UNKNOWN_PARTITION)
            if found.error is not None or highest >= len(found.partitions):
                doing = f"delivering a record to {topic} partition {highest}{self._as()}"
                acl = f"WRITE on topic {topic}"
                return translate(found.error or missing, doing, self._properties, acl)
        return None

    def _unknown(self) -> CommitUnknown:
        return CommitUnknown(
            silent("committing" + self._as(), self._properties, self._timeout_s).fact,
            cause="the broker or the network stalled; the transaction may be committed or not.",
            action="close the producer and reopen the state partition: its changelog shows it.",
        )

    def _check_deliveries(self) -> None:
        if self._refused and self._failed is None:
            self._failed = self._too_large()
        if self._failed is not None:
            self.abort()
            raise self._failed

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in PURGED:
            # Caused by our own abort, or by an error that only a commit returns.
            self._purged = self._purged or self._in_transaction
        elif error is not None and error.code() in _TOO_LARGE:
            self._refused = True
        elif error is not None and self._failed is None:
            doing = f"delivering a record to {place_of(message)}"
            self._failed = self._translated(error, doing)

    def _on_marker(self, error: KafkaError | None, message: Message) -> None:
        self._on_delivery(error, message)
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            self._marker_offset = offset

    def _as(self) -> str:
        return f" as {self.transactional_id}"


def _times(given: int | Sequence[int] | None, part: slice, count: int) -> Sequence[int]:
    """The times of a slice's records, for the client."""
    if not isinstance(given, Sequence):
        return [client_time(given)] * count
    return [time_ms or FIRST_MS for time_ms in given[part]]


def _final_for_transaction(error: KafkaException) -> bool:
    inner = kafka_error(error)
    return inner.fatal() or inner.txn_requires_abort()


def _final(error: KafkaException) -> bool:
    return _final_for_transaction(error) or not kafka_error(error).retriable()
