"""Reads a job's dead letters, and writes their records to the source topics again.

A replay is for after the fix.  One transaction writes, per record,

1. the record as it was, with its own time, to its own topic and topic partition, with the header
   `holdfast.replayed` (`<topic>/<partition>/<offset>`: where it was first);
2. its place, as a key of the compacted topic `<application.id>-dead-letter-replays`.

So a record is replayed once, however often a replay is begun, dies or is repeated, and however many
queries set it aside.  A replayed record that cannot be decoded either becomes a letter again;
`Choice.failed_again` has these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import dead_letter_replays_topic, dead_letter_transactional_id

__all__ = ["Choice", "Letters", "StoredLetter"]

_COMPACTED = {"cleanup.policy": "compact"}
_PER_TRANSACTION = 1_000
_ENDED_S = 70.0  # a killed replay's transaction may be open for a minute


@dataclass(frozen=True)
class StoredLetter:
    """A record of the dead-letter topic, by what its headers say of the original.

    Attributes:
        topic, partition, offset: where the original is.
        timestamp_ms: the original's.
        written_ms: when it was set aside.
        query: `<application.id>-<query>`.
        cut: key or value are only its first bytes.
    """

    key: bytes | None
    value: bytes | None
    reason: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    written_ms: int
    query: str
    cut: bool = False

    @property
    def origin(self) -> str:
        """Where the original is, as one text."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def digest(self) -> str:
        """A hash that tells this record from others, wherever it is written again."""
        found = hashlib.sha256()
        for part in (self.topic.encode(), self.key, self.value, str(self.timestamp_ms).encode()):
            found.update(b"\0" if part is None else b"\1%d:" % len(part) + part)
        return found.hexdigest()


@dataclass(frozen=True)
class Choice:
    """The outcome of a replay for each letter: each distinct record is in one of the lists.

    Attributes:
        due: to be written.
        done: written by an earlier replay.
        failed_again: copies that a replay wrote, and that could not be decoded either.
        cut: the letter does not have the whole record.
    """

    due: tuple[StoredLetter, ...]
    done: tuple[StoredLetter, ...]
    failed_again: tuple[StoredLetter, ...]
    cut: tuple[StoredLetter, ...]


class Letters:
    """The dead letters of one job, and what has become of them.

    Args:
        client: librdkafka properties.
        topic: the dead-letter topic; other jobs may share it.
    """

    def __init__(self, client: Mapping[str, str], topic: str, application_id: str) -> None:
        self._client = dict(client)
        self._topic = topic
        self._job = application_id
        self._replays = dead_letter_replays_topic(application_id)
        self._admin = Admin(client)

    def all(self) -> list[StoredLetter]:
        """Read every letter of the job that the topic still has, the oldest first.

        Raises:
            KafkaUnavailable, Refused: the topic cannot be read.
        """
        if self._admin.describe(self._topic) is None:
            return []
        found = filter(None, map(_letter, self._records(self._topic)))
        mine = (letter for letter in found if letter.query.startswith(f"{self._job}-"))
        return sorted(mine, key=lambda letter: (letter.written_ms, letter.origin))

    def choose(self, letters: Sequence[StoredLetter]) -> Choice:
        """Decide what a replay of these letters would do now."""
        done = self._done()
        digests = set(done.values())
        kinds: dict[str, dict[str, StoredLetter]] = {n: {} for n in ("due", "done", "again", "cut")}
        for letter in letters:
            # A topic that was made anew has other records in the same places.
            if done.get(letter.origin) == letter.digest:
                kind = "done"
            elif letter.cut:
                kind = "cut"
            else:
                kind = "again" if letter.digest in digests else "due"
            kinds[kind].setdefault(letter.origin, letter)
        return Choice(*(tuple(found.values()) for found in kinds.values()))

    def replay(self, letters: Sequence[StoredLetter], *, again: bool = False) -> int:
        """Write the due records to their topics again, in the order of their topics.

        Args:
            again: also those that failed again.

        Returns:
            How many were written.

        Raises:
            CommitUnknown: the broker did not answer; the next replay knows what was written.
            Fenced: another replay of the job began meanwhile.
            TopicMissing, KafkaUnavailable, Refused: nothing of this transaction was written.
        """
        self._admin.ensure_topic(self._replays, 1, config=_COMPACTED)
        with TransactionalProducer(
            self._client, dead_letter_transactional_id(self._job)
        ) as producer:
            producer.init()  # ends the transaction of a replay that died
            self._admin.await_ended(self._replays, 0, _ENDED_S)
            choice = self.choose(letters)
            due = [*choice.due, *(choice.failed_again if again else ())]
            due.sort(key=lambda letter: (letter.topic, letter.partition, letter.offset))
            for start in range(0, len(due), _PER_TRANSACTION):
                self._write(producer, due[start : start + _PER_TRANSACTION])
        return len(due)

    def _write(self, producer: TransactionalProducer, letters: Iterable[StoredLetter]) -> None:
        producer.begin()
        for letter in letters:
            headers = [("holdfast.replayed", letter.origin)]
            producer.send_one(
                letter.topic,
                letter.partition,
                letter.key,
                letter.value,
                headers,
                letter.timestamp_ms,
            )
            place, digest = letter.origin.encode(), letter.digest.encode()
            producer.send_one(self._replays, 0, place, digest, [])
        producer.commit()

    def _done(self) -> dict[str, str]:
        """The places of replayed records, and their digests."""
        if self._admin.describe(self._replays) is None:
            return {}
        found = {}
        for key, value, _, _ in self._records(self._replays):
            if key is not None and value is not None:
                found[key.decode()] = value.decode()
        return found

    def _records(self, topic: str) -> Iterator[_Record]:
        for partition, (start, end) in self._admin.bounds(topic).items():
            reader = PartitionReader(self._client, topic, partition, headers=True)
            try:
                for chunk in reader.read(start, end) if start < end else ():
                    columns = (chunk.keys, chunk.values, chunk.timestamps, chunk.headers)
                    yield from zip(*columns, strict=True)
            finally:
                reader.close()


_Record = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]


def _letter(record: _Record) -> StoredLetter | None:
    """The letter, or None for a record that is none."""
    key, value, written_ms, headers = record
    told = {name: (text or b"").decode(errors="replace") for name, text in headers}
    if "holdfast.query" not in told:
        return None
    return StoredLetter(
        key=key,
        value=value,
        reason=told.get("holdfast.reason", ""),
        topic=told["holdfast.topic"],
        partition=int(told["holdfast.partition"]),
        offset=int(told["holdfast.offset"]),
        timestamp_ms=int(told["holdfast.timestamp"]),
        written_ms=written_ms,
        query=told["holdfast.query"],
        cut=_is_cut(told, "key", key) or _is_cut(told, "value", value),
    )


def _is_cut(told: Mapping[str, str], part: str, payload: bytes | None) -> bool:
    size = told.get(f"holdfast.{part}.bytes")
    return size is not None and int(size) != len(payload or b"")
