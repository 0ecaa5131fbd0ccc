"""Writes records that cannot be decoded to the dead-letter topic, each exactly once.

A range of offsets may be read again: by a retried task, a retried batch, a restarted job.  So a
query's progress topic (`state.topics.source_progress`) keeps the position
of its dead letters by topic partition, committed in the same transaction:

1. take the transactional id `<prefix>-dead-letter-<topic>-<partition>`: this fences its former
   owner and ends its open transaction;
2. read the last commit marker: all bad records before its offset are written;
3. in one transaction write the bad records at or beyond that offset, and the next commit marker;
4. only then pass on the good records of the chunk.

A crash before the commit of 3 leaves nothing behind; after a later crash, 2 finds the marker.

A bad record may be as large as its source topic allows, and the dead-letter topic may allow less.
What does not fit there is told by its first bytes, its sizes and its hashes.

A letter that is cut has these headers, for its key and its value each (`key.` or `value.`):

| header | value |
|---|---|
| `holdfast.value.bytes` | size of the record's value |
| `holdfast.value.sha256` | its SHA-256, in hexadecimal digits |

Its key and value are the first bytes of the record's.  A short key or value stays whole but has the
headers, too; its size shows that it is whole.  `holdfast.topic`, `.partition` and `.offset` locate
the original record for as long as its topic keeps it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import RecordTooLarge, Refused, TopicMissing, UndecodableRecord
from holdfast.ingest.records import BadRecord
from holdfast.state.topics.source_progress import Of, SourceProgress, home_partition, progress_of
from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.sizes import (
    TOPIC_LIMIT,
    TOPIC_LIMIT_DEFAULT,
    producer_limit,
    record_bytes,
    with_batches,
)
from holdfast.types.ingest import IngestOptions

__all__ = ["DeadLetters", "Headers", "cut", "undecodable", "whole"]

_LOG = logging.getLogger(__name__)
_PREVIEW_BYTES = 100
_REASON_CHARS = 500
_LEAST_BYTES = 4_096  # a letter cut to this size fits every topic in use
_ENDED_S = 70.0  # a transaction of the query's own records may be open for a minute


class DeadLetters:
    """Owns the dead-letter producer of one query and topic partition during one read.

    Nothing is opened before the first bad record.  A bad record's key and value are copied
    unchanged, or cut if they do not fit; headers `holdfast.reason`, `.topic`, `.partition`,
    `.offset`, `.timestamp` (ms) and `.query` (`<application.id>-<query>`) say why and where it was
    found, all of them UTF-8 text.
    """

    def __init__(self, options: IngestOptions, partition: int) -> None:
        self._options = options
        self._topic = options.source.topic
        self._partition = partition
        self._producer: TransactionalProducer | None = None
        self._last: SourceProgress | None = None
        self._target = 0  # partition of the dead-letter topic
        self._home = 0  # partition of the progress topic
        self._room = 0  # bytes of the largest letter

    def write(self, bad: Sequence[BadRecord]) -> int:
        """Ensures that these records, in offset order, are in the dead-letter topic.

        Returns:
            How many this call wrote; the others were there already.

        Raises:
            TopicMissing: there is no dead-letter topic, or no progress topic.
            RecordTooLarge: the dead-letter topic does not even accept a cut letter.
            HangingTransaction: a predecessor's open transaction cannot be ended.
            Retriable: the outcome is unknown or another attempt took over; read again.
        """
        if not bad:
            return 0
        producer = self._producer or self._open()
        try:
            return self._write(producer, bad)
        except RecordTooLarge as error:
            # The topic's limit was lowered meanwhile, or may not be queried.
            if self._room <= _LEAST_BYTES:
                raise
            _LOG.warning("Undecodable records are cut to %d bytes: %s", _LEAST_BYTES, error)
        self.close()
        return self._write(self._open(most=_LEAST_BYTES), bad)

    def _write(self, producer: TransactionalProducer, bad: Sequence[BadRecord]) -> int:
        written = self._written()
        new = [record for record in bad if record.offset >= written]
        if not new:
            return 0
        producer.begin()
        for record in new:
            letter = self._letter(record)
            producer.send_one(
                self._options.dead_letter_topic,
                self._target,
                letter.key,
                letter.value,
                letter.headers,
            )
        before = self._last.records if self._last is not None else 0
        marker = SourceProgress(
            self._topic,
            self._partition,
            new[-1].offset + 1,
            before + len(new),
            topic_id=self._options.topic_id,
        )
        key = Of.DEAD_LETTERS.key(self._partition, self._options.side)
        producer.send_marker(self._options.progress_topic, self._home, key, marker.to_bytes())
        producer.commit()
        self._last = marker
        self._tell(new)
        return len(new)

    def _written(self) -> int:
        """The offset before which all bad records are written; the start for a recreated topic."""
        last = self._last
        other = last is not None and last.of_other(self._options.topic_id)
        return 0 if last is None or other else last.offset

    def close(self) -> None:
        """Closes the producer; aborts an open transaction."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _open(self, most: int | None = None) -> TransactionalProducer:
        """Steps 1 and 2; `most`: a letter's limit in bytes, default: topic's and producer's."""
        options = self._options
        self._target = self._partition % self._partitions(options.dead_letter_topic)
        limit = most or self._topic_limit()
        self._room = min(limit, producer_limit(options.kafka))
        partitions = self._partitions(options.progress_topic)
        self._home = home_partition(self._partition, partitions)
        of_side = f"{options.side}-" if options.side else ""
        place = f"{of_side}{self._topic}-{self._partition}"
        name = f"{options.transactional_id_prefix}-dead-letter-{place}"
        client = with_batches(options.kafka, limit)  # a batch must hold several letters or one
        producer = self._producer = TransactionalProducer(client, name)
        producer.init()  # fences other writers before the marker is read
        shared_admin(options.kafka).await_ended(options.progress_topic, self._home, _ENDED_S)
        self._last = progress_of(
            options.kafka,
            options.progress_topic,
            partitions,
            Of.DEAD_LETTERS,
            self._partition,
            options.side,
        )
        return producer

    def _topic_limit(self) -> int:
        admin, topic = shared_admin(self._options.kafka), self._options.dead_letter_topic
        try:
            found = admin.config(topic).get(TOPIC_LIMIT)
        except Refused as error:  # no permission to read topic settings
            _LOG.warning("%s of the dead-letter topic is unknown: %s", TOPIC_LIMIT, error)
            found = None
        return int(found or TOPIC_LIMIT_DEFAULT)

    def _letter(self, record: BadRecord) -> Letter:
        letter = whole(record, self._headers(record))
        return letter if letter.size <= self._room else cut(letter, self._room)

    def _partitions(self, topic: str) -> int:
        found = shared_admin(self._options.kafka).describe(topic)
        if found is None:
            raise TopicMissing(
                f"The topic {topic} does not exist; undecodable records cannot be set aside.",
                cause="it was deleted while the job ran.",
                action="create the topic, or restart the job, which creates it.",
            )
        return found.partitions

    def _headers(self, record: BadRecord) -> Headers:
        return [
            ("holdfast.reason", record.reason[:_REASON_CHARS]),
            ("holdfast.topic", self._topic),
            ("holdfast.partition", str(self._partition)),
            ("holdfast.offset", str(record.offset)),
            ("holdfast.timestamp", str(record.timestamp)),
            ("holdfast.query", self._options.transactional_id_prefix),
        ]

    def _tell(self, new: Sequence[BadRecord]) -> None:
        _LOG.warning(
            "%d undecodable records of topic %s partition %d went to %s; the first, offset %d: %s",
            len(new),
            self._topic,
            self._partition,
            self._options.dead_letter_topic,
            new[0].offset,
            new[0].reason,
        )


def undecodable(options: IngestOptions, partition: int, record: BadRecord) -> UndecodableRecord:
    """The error of policy "fail" for `record`."""
    value = record.value or b""
    more = f" … ({len(value)} bytes)" if len(value) > _PREVIEW_BYTES else ""
    return UndecodableRecord(
        f"Topic {options.source.topic} partition {partition} offset {record.offset} cannot be "
        f"decoded: {record.reason[:_REASON_CHARS]}. Key {_preview(record.key)}, "
        f"value {_preview(record.value)}{more}.",
        cause=f"its producer does not write what {options.source.name} declares.",
        action="correct the declaration, or set deserialization.error=dead-letter to set such "
        "records aside and continue.",
    )


def _preview(payload: bytes | None) -> str:
    return "null" if payload is None else repr(payload[:_PREVIEW_BYTES])


Headers = list[tuple[str, str | bytes | None]]
_HEAD_BYTES = 1_024
_CUT_REASON_CHARS = 100
_REASON = "holdfast.reason"


@dataclass(frozen=True)
class Letter:
    """A record of the dead-letter topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size(self) -> int:
        """The most bytes that the letter takes of the topic's limit."""
        return record_bytes(self.key, self.value, self.headers)


def whole(record: BadRecord, headers: Headers) -> Letter:
    """The record unchanged."""
    return Letter(record.key, record.value, headers)


def cut(letter: Letter, room: int) -> Letter:
    """Cuts a letter to the first bytes of key and value, with their sizes and hashes.

    Args:
        room: the size of the cut letter in bytes, if its headers fit into that.
    """
    headers = letter.headers + _facts("key", letter.key) + _facts("value", letter.value)
    left = room - record_bytes(None, None, headers)
    if left < 0:
        headers = [(n, v[:_CUT_REASON_CHARS] if n == _REASON and v else v) for n, v in headers]
        left = room - record_bytes(None, None, headers)
    half = max(0, min(_HEAD_BYTES, left // 2))
    return Letter(_head(letter.key, half), _head(letter.value, half), headers)


def _facts(part: str, payload: bytes | None) -> Headers:
    if payload is None:
        return []
    return [
        (f"holdfast.{part}.bytes", str(len(payload))),
        (f"holdfast.{part}.sha256", hashlib.sha256(payload).hexdigest()),
    ]


def _head(payload: bytes | None, most: int) -> bytes | None:
    return None if payload is None else payload[:most]
