"""Reads one topic partition, read_committed, from one offset to another.

Progress is a position, not the last record: transaction markers and aborted records take offsets,
and compaction leaves gaps, so the last record of a range may be far before its end.  A read has
ended when its *position* (the next offset to fetch) has reached the end.  The client shows this in
two ways: a record at or beyond the end, or an end-of-partition event, whose offset is the position
after all markers and aborted records.
"""

from __future__ import annotations

import gc
import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from operator import call
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from holdfast.errors import DataLoss, HoldfastError
from holdfast.transport.errors import (
    MISSING,
    SETTLING,
    client_config,
    kafka_error,
    needs_new_client,
    silent,
    translate,
)

__all__ = ["READ_COMMITTED", "Chunk", "PartitionReader", "consume", "in_columns"]

_LOG = logging.getLogger(__name__)
_TIMEOUT_S = 30.0
_ATTEMPT_S = 10.0  # a request on a dead connection is repeated on another
_RETRY_S = 0.2
_POLL_S = 0.25
# The size of values at which a chunk is complete: ten thousand records may be 10 GB.
_CHUNK_BYTES = 32 << 20
_FORGOTTEN_S = 15.0  # a broker that has just started may not know its topics yet
_END_WAIT_S = 10.0  # a marker just written may take a moment to move the committed end

# The required properties of every reader.
READ_COMMITTED: dict[str, str | int | bool] = {
    "group.id": "holdfast-reader",  # required by the client; nothing is ever committed to it
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
_DEFAULTS: dict[str, str | int | bool] = {
    "fetch.queue.backoff.ms": 10,
    # A broker answers a connection's requests one by one: a long poll would delay the others.
    "fetch.wait.max.ms": 100,
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16_384,
}

_UNREADABLE = ()  # in place of headers
_LOST = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError.GROUP_AUTHORIZATION_FAILED,  # for the group that is never used
    }
)  # the client keeps trying; the reader's own clock decides when to give up


@dataclass
class Chunk:
    """Consecutive records of one topic partition, in columns of equal length.

    Attributes:
        keys: record keys as bytes; None for a record without key.
        values: record values as bytes; None for a tombstone.
        offsets: ascending, not always dense.
        timestamps: ms since the epoch; -1 for a record without time.
        position: the offset to read next, beyond gaps and markers already passed.
        headers: (name, value) pairs per record; empty unless the reader reads headers.
    """

    keys: list[bytes | None]
    values: list[bytes | None]
    offsets: list[int]
    timestamps: list[int]
    position: int
    headers: list[list[tuple[str, bytes | None]]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)

    def last_headers(self, name: str) -> Iterator[tuple[int, bytes | None]]:
        """Offset and last header of that name, for each record that has headers at all.

        Records are left out if a header's name cannot be read.
        """
        for offset, record in zip(self.offsets, self.headers, strict=False):
            if record:
                yield offset, _last(name, record)

    def part(self, start: int, end: int, position: int) -> Chunk:
        """The records number `start` to `end` (exclusive), without headers."""
        return Chunk(
            self.keys[start:end],
            self.values[start:end],
            self.offsets[start:end],
            self.timestamps[start:end],
            position,
        )

    def append(self, more: Chunk) -> None:
        """Appends the records that follow, without headers."""
        self.keys += more.keys
        self.values += more.values
        self.offsets += more.offsets
        self.timestamps += more.timestamps
        self.position = more.position

    def since(self, offset: int) -> Chunk:
        """The records from an offset on, without headers."""
        if not self.offsets or self.offsets[0] >= offset:
            return self
        first = bisect_left(self.offsets, offset)
        return self.part(first, len(self), max(self.position, offset))


class PartitionReader:
    """Owns one consumer of one topic partition and the position it has reached.

    A read that continues the last one uses records fetched ahead; a read from another offset seeks.
    Not thread-safe.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        topic: str,
        partition: int,
        *,
        timeout_s: float = _TIMEOUT_S,
        headers: bool = False,
        exists: bool = False,
    ) -> None:
        """Sends nothing before the first call.

        Args:
            client: librdkafka properties; those that affect what is read are overridden.
            timeout_s: how long a broker may stay silent before `KafkaUnavailable`.
            headers: whether to read headers, which takes time.
            exists: the topic partition was there a moment ago: a broker that does not know it is
                asked again for a while.
        """
        self.topic = topic
        self.partition = partition
        self._client = dict(client)
        self._timeout_s = timeout_s
        self._headers = headers
        self._exists = exists
        self._told_of_headers = False
        self._consumer: Consumer | None = None
        self._end_wait_s = min(timeout_s, _END_WAIT_S)
        self._pending: list[Message] = []  # fetched, not yet returned
        self._position = -1  # the next offset to return; -1: not assigned
        self._fetched = -1  # the offset after all fetched records, returned or pending

    @property
    def _name(self) -> str:
        return f"topic {self.topic} partition {self.partition}"

    def turn_to(self, topic: str, partition: int) -> None:
        """Reads another topic partition from now on, over the same connections."""
        if (topic, partition) != (self.topic, self.partition):
            self.topic, self.partition = topic, partition
            self._pending, self._position, self._fetched = [], -1, -1

    def bounds(self) -> tuple[int, int]:
        """The log start and the read_committed end (last stable offset).

        Retries while the partition has no leader: right after the topic was created, and while its
        broker restarts.

        Raises:
            TopicMissing: no such topic or topic partition.
            KafkaUnavailable: no answer in time.
        """
        began = time.monotonic()
        for failures in count(1):
            try:
                return self._ask_bounds()
            except KafkaException as error:
                code = kafka_error(error).code()
                forgotten = self._exists and code in MISSING
                if forgotten or needs_new_client(code, failures):
                    self.close()
                limit_s = _FORGOTTEN_S if forgotten else self._timeout_s
                settles = forgotten or code in SETTLING
                if not settles or time.monotonic() >= began + limit_s:
                    raise self._translate(kafka_error(error)) from error
                time.sleep(_RETRY_S)
        raise AssertionError("counting has no end")

    def _ask_bounds(self) -> tuple[int, int]:
        place, limit_s = (
            TopicPartition(self.topic, self.partition),
            min(_ATTEMPT_S, self._timeout_s),
        )
        found = self._open().get_watermark_offsets(place, timeout=limit_s)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return found

    def read(self, start: int, end: int, chunk_records: int = 10_000) -> Iterator[Chunk]:
        """Committed records with `start <= offset < end`, oldest first.

        Every chunk except the last holds `chunk_records` records, or fewer large ones; the last one
        may be empty, and its position is at or beyond `end`.

        Raises:
            DataLoss: `start` or `end` is outside of the topic partition's log.
            TopicMissing: no such topic or topic partition.
            KafkaUnavailable: the broker was silent for too long.
        """
        if start >= end:
            self._check(start, start)
            return
        try:
            self._move(start)
            while self._position < end:
                yield self._chunk(end, chunk_records)
        except KafkaException as error:
            raise self._failed(kafka_error(error), start, end) from error

    def close(self) -> None:
        """Closes the connection; the reader may be used again and then reconnects."""
        consumer, self._consumer = self._consumer, None
        self._pending, self._position, self._fetched = [], -1, -1
        if consumer is not None:
            consumer.close()

    def _open(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(client_config(self._client, _DEFAULTS, READ_COMMITTED))
        return self._consumer

    def _move(self, start: int) -> None:
        if start == self._position:
            return
        self._pending, self._position, self._fetched = [], -1, -1
        self._open().assign([TopicPartition(self.topic, self.partition, start)])
        self._position = self._fetched = start

    def _chunk(self, end: int, size: int) -> Chunk:
        """The next `size` records before `end`, or all that there are before `end`."""
        self._fill(end, size)
        cut = min(size, bisect_left(self._pending, end, key=_offset))
        batch, self._pending = self._pending[:cut], self._pending[cut:]
        reached = _offset(self._pending[0]) if self._pending else self._fetched
        self._position = min(reached, end)
        chunk = in_columns(batch, self._position)
        if self._headers:
            chunk.headers = [self._headers_of(m) for m in batch]
        return chunk

    def _headers_of(self, message: Message) -> list[tuple[str, bytes | None]]:
        """A record's headers; none if they cannot be read: another try would fail as well."""
        found = _if_readable(message)
        if found is _UNREADABLE:
            if not self._told_of_headers:
                _LOG.warning(
                    "A record of %s, offset %d, counts as one without headers: Kafka's client for "
                    "Python cannot read them, because a name among them is not UTF-8",
                    self._name,
                    message.offset(),
                )
            self._told_of_headers = True
            return []
        return _pairs(found) if found else []

    def _fill(self, end: int, size: int) -> None:
        """Fetches until `size` records, a chunk's bytes, or all before `end` are pending."""
        quiet_since, at_end, room = time.monotonic(), False, _CHUNK_BYTES
        while len(self._pending) < size and self._fetched < end and room > 0:
            got = consume(self._open(), size - len(self._pending))
            if got:
                quiet_since, at_end = time.monotonic(), self._accept(got)
                room -= sum(map(len, got))
            elif time.monotonic() - quiet_since > (self._end_wait_s if at_end else self._timeout_s):
                self._check(self._fetched, end)
                raise self._silent()

    def _accept(self, got: list[Message]) -> bool:
        """Keeps the records; True if the last message is the end-of-partition event."""
        if not any(map(Message.error, got)):
            self._pending += got
            self._fetched = _offset(got[-1]) + 1
            return False
        at_end = False
        for message in got:
            error = message.error()
            at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if error is None:
                self._pending.append(message)
                self._fetched = _offset(message) + 1
            elif at_end:
                self._fetched = max(self._fetched, _offset(message))
            elif not error.retriable() and error.code() not in _PASSING:
                raise KafkaException(error)
        return at_end

    def _check(self, start: int, end: int) -> None:
        """Raises `DataLoss` unless the topic partition holds `start` to `end`."""
        low, high = self.bounds()
        if start < low:
            raise self._lost(start, low, high)
        if max(start, end) > high:
            raise self._lost(max(start, end), low, high)

    def _failed(self, error: KafkaError, start: int, end: int) -> HoldfastError:
        """The error for a failed read; drops the consumer, and the next read creates another."""
        wanted = max(start, self._fetched)
        self.close()
        forgotten = self._exists and error.code() in MISSING
        if error.code() not in _LOST and not forgotten:
            return self._translate(error)
        low, high = self.bounds()
        if forgotten:
            return self._silent()  # the broker knows it again
        return self._lost(wanted if wanted < low or wanted > high else end, low, high)

    def _lost(self, wanted: int, low: int, high: int) -> DataLoss:
        retention = "retention deleted the records before they were read."
        recreated = "the topic was deleted and created again, or truncated."
        return DataLoss(
            f"Of {self._name} offset {wanted} is wanted but "
            f"offsets {low} to {high} (exclusive) are available.",
            cause=retention if wanted < low else recreated,
            action="restore the topic, or continue from an offset that exists.",
        )

    def _silent(self) -> HoldfastError:
        return silent(f"reading {self._name}", self._client, self._timeout_s)

    def _translate(self, error: KafkaError) -> HoldfastError:
        acl = f"READ and DESCRIBE on topic {self.topic}"
        return translate(error, f"reading {self._name}", self._client, acl)


def consume(consumer: Consumer, most: int, wait_s: float = _POLL_S) -> list[Message]:
    """Messages fetched already, at most `most`; otherwise waits for the next one."""
    # Python's collector would search every few hundred new messages for cycles, which takes a
    # quarter of the reading time.  There are none.
    collects = gc.isenabled()
    gc.disable()
    try:
        # Without a wait `consume` returns all there is; with one it would wait for `most`.
        return consumer.consume(most, 0) or consumer.consume(1, wait_s)
    finally:
        if collects:
            gc.enable()


def _offset(message: Message) -> int:
    offset = message.offset()
    return -1 if offset is None else offset


def _if_readable(message: Message) -> Any:
    try:
        # It returns a damaged list together with its error.  Python's interpreter looks for the
        # error in the first few calls only, `call` in all.
        return call(Message.headers, message)
    except SystemError:  # of a name that is not UTF-8
        return _UNREADABLE


def _pairs(found: Any) -> list[tuple[str, bytes | None]]:
    pairs = found.items() if isinstance(found, dict) else found
    return [(name, v.encode() if isinstance(v, str) else v) for name, v in pairs]


def _last(name: str, record: list[tuple[str, bytes | None]]) -> bytes | None:
    return next((value for header, value in reversed(record) if header == name), None)


_COLUMNS: dict[str, Callable[[list[Message]], list[Any]]] = {
    "keys": lambda batch: list(map(Message.key, batch)),
    "values": lambda batch: list(map(Message.value, batch)),
    "offsets": lambda batch: list(map(Message.offset, batch)),
    "timestamps": lambda batch: [time_ms for _, time_ms in map(Message.timestamp, batch)],
}


class _Fetched(Chunk):
    """Messages as a chunk; each column is created on first use.

    A caller that only needs the values does not pay for keys and offsets.
    """

    def __init__(self, batch: list[Message], position: int) -> None:
        self._batch, self.position, self.headers = batch, position, []

    def __len__(self) -> int:
        return len(self.values)  # not the batch: chunks are appended to

    def last_headers(self, name: str) -> Iterator[tuple[int, bytes | None]]:
        """As of any chunk; reads the headers of one record after the other."""
        for message in self._batch:
            if found := _if_readable(message):
                yield _offset(message), _last(name, _pairs(found))

    def __getattr__(self, name: str) -> list[Any]:
        """Creates a column; Python only calls this for missing attributes."""
        if name not in _COLUMNS:
            raise AttributeError(f"a chunk has no {name}")
        column = self.__dict__[name] = _COLUMNS[name](self._batch)
        return column


def in_columns(batch: list[Message], position: int) -> Chunk:
    """Messages of one topic partition as a chunk."""
    return _Fetched(batch, position)
