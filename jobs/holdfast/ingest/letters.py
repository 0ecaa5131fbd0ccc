"""Reads a job's dead letters, and writes their records to the source topics again.

A replay is for after the fix.  One transaction writes, per record,

1. the record as it was, with its own time, to its own topic and topic partition, with the header
   `holdfast.replayed` (`<topic>/<partition>/<offset>`: where it was first);
2. its place and digest, as a key of the compacted topic `<application.id>-dead-letter-replays`.

So a record is replayed once, however often a replay is begun, dies or is repeated, and however many
queries set it aside.  A replayed record that cannot be decoded either becomes a letter again
(`Fate.FAILED_AGAIN`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from holdfast.ingest.stored_letters import Counts, Fate, Ledger, StoredLetter
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import dead_letter_replays_topic, dead_letter_transactional_id

__all__ = ["Letters", "Overview", "Replayed"]

_COMPACTED = {"cleanup.policy": "compact"}
_PER_TRANSACTION = 1_000
_ENDED_S = 70.0  # a killed replay's transaction may be open for a minute


@dataclass(frozen=True)
class Overview:
    """The letters of a job.

    Attributes:
        counts: distinct records; several queries may have set one aside.
        total: letters.
        newest: the last ones, the oldest of these first, and what a replay does with each.
    """

    counts: Counts
    total: int
    newest: tuple[tuple[StoredLetter, Fate], ...]


@dataclass(frozen=True)
class Replayed:
    """The letters before a replay, and how many records it has written."""

    before: Overview
    written: int


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

    def overview(self, limit: int) -> Overview:
        """Read every letter of the job that the topic still has.

        Args:
            limit: how many of the newest to return.

        Raises:
            KafkaUnavailable, Refused: the topic cannot be read.
        """
        with Ledger(self._done(), whole=False) as ledger:
            return self._noted(ledger, limit)

    def replay(self, limit: int = 0, *, again: bool = False) -> Replayed:
        """Write the due records to their topics again, in the order of their topics.

        Args:
            limit: how many of the newest letters to return.
            again: also those that failed again.

        Raises:
            CommitUnknown: the broker did not answer; the next replay knows what was written.
            Fenced: another replay of the job began meanwhile.
            TopicMissing, KafkaUnavailable, Refused: nothing of this transaction was written.
        """
        self._admin.ensure_topic(self._replays, 1, config=_COMPACTED)
        written = 0
        with TransactionalProducer(
            self._client, dead_letter_transactional_id(self._job)
        ) as producer:
            producer.init()  # ends the transaction of a replay that died
            self._admin.await_ended(self._replays, 0, _ENDED_S)
            with Ledger(self._done(), whole=True) as ledger:
                before = self._noted(ledger, limit)
                due = ledger.writable(again=again)
                while some := list(islice(due, _PER_TRANSACTION)):
                    self._write(producer, some)
                    written += len(some)
        return Replayed(before, written)

    def _noted(self, ledger: Ledger, limit: int) -> Overview:
        """Enter every letter in the ledger."""
        newest: list[tuple[int, str, int, StoredLetter, Fate]] = []
        total = 0
        for letter in self._letters():
            fate = ledger.note(letter)
            heapq.heappush(newest, (letter.written_ms, letter.origin, total, letter, fate))
            if len(newest) > limit:
                heapq.heappop(newest)
            total += 1
        shown = tuple((letter, fate) for *_, letter, fate in sorted(newest))
        return Overview(ledger.counts(), total, shown)

    def _letters(self) -> Iterator[StoredLetter]:
        if self._admin.describe(self._topic) is not None:
            for record in self._records(self._topic):
                letter = _letter(record)
                if letter is not None and letter.query.startswith(f"{self._job}-"):
                    yield letter

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
            place, digest = f"{letter.origin} {letter.digest}".encode(), letter.digest.encode()
            producer.send_one(self._replays, 0, place, digest, [])
        producer.commit()

    def _done(self) -> Iterator[tuple[str, str]]:
        """The places of replayed records, and their digests."""
        if self._admin.describe(self._replays) is None:
            return
        for key, value, _, _ in self._records(self._replays):
            if key is not None and value is not None:
                yield key.decode().partition(" ")[0], value.decode()  # older keys: places alone

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
