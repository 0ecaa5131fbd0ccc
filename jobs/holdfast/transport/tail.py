"""Follows the ends of many topic partitions, read_committed, with one consumer.

A consumer may stop fetching a topic partition without an error, for a quarter of an hour or for
good: after its broker was restarted or replaced, by what it remembers of the one before.  Silence
alone does not show it, because nothing may have been written.  So a topic partition that has been
silent is asked for once more: a consumer that fetches answers with the end of the partition at
least.  If it does not, another consumer takes its place.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from holdfast.errors import HoldfastError
from holdfast.transport.errors import client_config, kafka_error, translate
from holdfast.transport.reader import READ_COMMITTED, Chunk, consume, in_columns
from holdfast.types.ids import Place

__all__ = ["Tail", "TailReader"]

_LOG = logging.getLogger(__name__)
_SILENT_S = 30.0  # after that, a topic partition is asked for again
_ANSWER_S = 10.0  # how long an answer to that may take
_LOOK_S = 1.0
_DEFAULTS: dict[str, str | int | bool] = {
    "fetch.queue.backoff.ms": 10,
    # A fetch returns as soon as there is a record; an added topic partition waits for the next.
    "fetch.wait.max.ms": 100,
    # The client waits for a broker without limit, and logs each attempt.
    "reconnect.backoff.ms": 1_000,
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 8_192,
}
_GONE = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)


@dataclass(frozen=True)
class Tail:
    """The result of one poll.

    Attributes:
        chunks: committed records, in order, by topic partition.
        ends: the committed ends of topic partitions that were read up to it.
        failed: the errors of topic partitions that are no longer followed.
    """

    chunks: dict[Place, Chunk] = field(default_factory=dict)
    ends: dict[Place, int] = field(default_factory=dict)
    failed: dict[Place, HoldfastError] = field(default_factory=dict)


@dataclass
class _Followed:
    """A topic partition: the next offset, when something was last heard of it (monotonic)."""

    offset: int
    heard: float
    asked: bool = False  # again, since then

    def hear(self, offset: int) -> None:
        self.offset, self.heard, self.asked = max(self.offset, offset), time.monotonic(), False


class TailReader:
    """Owns one consumer at a time.  Not thread-safe."""

    def __init__(self, client: Mapping[str, str]) -> None:
        """Sends nothing before the first call.

        Args:
            client: librdkafka properties; those that affect what is read are overridden.
        """
        self._client = dict(client)
        self._consumer: Consumer | None = None
        self._followed: dict[Place, _Followed] = {}
        self._looked = time.monotonic()

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Follows a topic partition from an offset; moves one that is followed already.

        Raises:
            Refused: the client itself fails.
        """
        self.leave(topic, partition)
        self._assign({(topic, partition): offset})
        self._followed[topic, partition] = _Followed(offset, time.monotonic())

    def leave(self, topic: str, partition: int) -> None:
        """Stops following a topic partition; does nothing if it is not followed.

        Raises:
            Refused: the client itself fails.
        """
        if self._followed.pop((topic, partition), None) is not None:
            self._unassign([(topic, partition)])

    def poll(self, most: int, wait_s: float) -> Tail:
        """Returns at most `most` records; waits for the first one.

        It waits for an unreachable broker without an error, because it may come back.

        Raises:
            Refused: the client itself fails.
        """
        self._ask_the_silent()
        with self._translated():
            got = consume(self._open(), most, wait_s)
        found = Tail()
        if any(map(Message.error, got)):
            self._take_events([message for message in got if message.error() is not None], found)
            got = [message for message in got if message.error() is None]
        for place, batch in _by_place(got).items():
            if place in self._followed:  # otherwise it was fetched before `leave`
                chunk = found.chunks[place] = in_columns(batch, cast("int", batch[-1].offset()) + 1)
                self._followed[place].hear(chunk.position)
        return found

    def _take_events(self, events: list[Message], found: Tail) -> None:
        for event in events:
            place, error = _place(event), cast("KafkaError", event.error())
            if place not in self._followed:
                continue
            if error.code() == KafkaError._PARTITION_EOF:
                found.ends[place] = cast("int", event.offset())
                self._followed[place].hear(found.ends[place])
            elif error.code() in _GONE:
                found.failed[place] = self._failed(place, error)

    def close(self) -> None:
        """Closes the connection."""
        consumer, self._consumer = self._consumer, None
        self._followed = {}
        if consumer is not None:
            consumer.close()

    def _ask_the_silent(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        silent = {p: f for p, f in self._followed.items() if now - f.heard > _SILENT_S}
        mute = [p for p, f in silent.items() if f.asked and now - f.heard > _SILENT_S + _ANSWER_S]
        if mute:
            self._take_another_consumer(len(mute), *mute[0])
            return
        asked = {place: each.offset for place, each in silent.items() if not each.asked}
        for place in asked:
            self._followed[place].asked = True
        if asked:
            self._unassign(asked)
            self._assign(asked)

    def _take_another_consumer(self, count: int, topic: str, partition: int) -> None:
        _LOG.warning(
            "%d of %d topic partitions give no answer, such as %s-%d: another client follows them",
            count,
            len(self._followed),
            topic,
            partition,
        )
        offsets = {place: each.offset for place, each in self._followed.items()}
        self.close()
        now = time.monotonic()
        self._followed = {place: _Followed(offset, now) for place, offset in offsets.items()}
        self._assign(offsets)

    def _assign(self, offsets: Mapping[Place, int]) -> None:
        with self._translated():
            self._open().incremental_assign([TopicPartition(*p, o) for p, o in offsets.items()])

    def _unassign(self, places: Iterable[Place]) -> None:
        with self._translated():
            self._open().incremental_unassign([TopicPartition(*place) for place in places])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as failed:
            raise translate(kafka_error(failed), "following changelogs", self._client) from failed

    def _failed(self, place: Place, error: KafkaError) -> HoldfastError:
        topic, partition = place
        self.leave(topic, partition)
        acl = f"READ and DESCRIBE on topic {topic}"
        return translate(error, f"following topic {topic} partition {partition}", self._client, acl)

    def _open(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(client_config(self._client, _DEFAULTS, READ_COMMITTED))
            self._consumer.assign([])
        return self._consumer


def _place(message: Message) -> Place:
    return cast("str", message.topic()), cast("int", message.partition())


def _by_place(records: list[Message]) -> dict[Place, list[Message]]:
    """Records by topic partition; the client returns long runs of one topic partition."""
    places = zip(map(Message.topic, records), map(Message.partition, records), strict=True)
    found: defaultdict[Place, list[Message]] = defaultdict(list)
    at = 0
    for place, run in groupby(places):
        end = at + len(list(run))
        found[cast("Place", place)] += records[at:end]
        at = end
    return found
