"""One poll of many topic partitions: the client gives records and events in any mixture."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from holdfast.transport import tail as module
from holdfast.transport.tail import Tail, TailReader


class _Consumer:
    """A consumer that has fetched these messages."""

    def __init__(self, fetched: list[Message]) -> None:
        self.fetched = fetched
        self.assigned: dict[tuple[str, int], int] = {}
        self.closed = False

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned = {(p.topic, p.partition): p.offset for p in places}

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        """Whatever is followed has been fetched already."""
        self.assigned |= {(p.topic, p.partition): p.offset for p in places}

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        for place in places:
            del self.assigned[place.topic, place.partition]

    def close(self) -> None:
        self.closed = True

    def consume(self, most: int, _wait_s: float) -> list[Message]:
        got, self.fetched = self.fetched[:most], self.fetched[most:]
        return got


def record(topic: str, partition: int, offset: int) -> Message:
    name = f"{topic}{partition}/{offset}".encode()
    return Message(topic=topic, partition=partition, offset=offset, key=name, value=name)


def event(code: int, topic: str, partition: int, offset: int) -> Message:
    return Message(topic=topic, partition=partition, offset=offset, error=KafkaError(code))


def polled(*messages: Message) -> Tail:
    """Feeds the messages to a reader of partitions 0 and 1 of topic a, and 0 of b."""
    reader = TailReader({"bootstrap.servers": "nowhere:1"})
    vars(reader)["_consumer"] = _Consumer(list(messages))
    for place in (("a", 0), ("a", 1), ("b", 0)):
        reader.follow(*place, 0)
    return reader.poll(100, 0)


def test_records_keep_their_order_in_each_topic_partition() -> None:
    places = [("a", 0, 5), ("a", 0, 7), ("a", 1, 5), ("b", 0, 1), ("a", 0, 8), ("a", 1, 9)]
    tail = polled(*(record(*place) for place in places))
    assert {place: chunk.offsets for place, chunk in tail.chunks.items()} == {
        ("a", 0): [5, 7, 8], ("a", 1): [5, 9], ("b", 0): [1],
    }  # fmt: skip
    assert tail.chunks["a", 0].keys == [b"a0/5", b"a0/7", b"a0/8"]
    assert [chunk.position for chunk in tail.chunks.values()] == [9, 10, 2]
    assert not tail.ends


def test_events_between_records_are_told_apart() -> None:
    tail = polled(
        record("a", 0, 1),
        event(KafkaError._PARTITION_EOF, "a", 0, 2),
        event(KafkaError.OFFSET_OUT_OF_RANGE, "a", 1, 3),
        event(KafkaError._TRANSPORT, "b", 0, 0),
        record("b", 0, 4),
        record("a", 1, 9),
    )
    assert tail.ends == {("a", 0): 2}
    assert list(tail.failed) == [("a", 1)]  # what comes of it is not to be applied any more
    assert {place: chunk.offsets for place, chunk in tail.chunks.items()} == {
        ("a", 0): [1], ("b", 0): [4],
    }  # fmt: skip


def test_what_was_fetched_before_it_was_left_is_nobody_s() -> None:
    tail = polled(record("c", 0, 1), event(KafkaError._PARTITION_EOF, "c", 0, 2))
    assert tail == Tail()


class _Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> list[_Consumer]:
    """Every consumer that a reader has made."""
    made: list[_Consumer] = []

    def make(_: Any) -> _Consumer:
        made.append(_Consumer([]))
        return made[-1]

    monkeypatch.setattr(module, "Consumer", make)
    return made


def test_a_silent_topic_partition_is_asked_for_where_it_was(
    clock: _Clock, consumers: list[_Consumer]
) -> None:
    reader = TailReader({"bootstrap.servers": "nowhere:1"})
    reader.follow("a", 0, 3)
    reader.follow("a", 1, 4)
    consumers[0].fetched = [record("a", 0, 8), event(KafkaError._PARTITION_EOF, "a", 1, 6)]
    reader.poll(100, 0)
    clock.now += 31
    reader.poll(100, 0)
    assert consumers[0].assigned == {("a", 0): 9, ("a", 1): 6}
    consumers[0].fetched = [event(KafkaError._PARTITION_EOF, "a", p, 9 - 3 * p) for p in (0, 1)]
    assert reader.poll(100, 0).ends == {("a", 0): 9, ("a", 1): 6}
    clock.now += 31  # both have answered, so the same consumer is asked again
    reader.poll(100, 0)
    assert len(consumers) == 1


def test_a_consumer_that_gives_no_answer_is_replaced(
    clock: _Clock, consumers: list[_Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    reader = TailReader({"bootstrap.servers": "nowhere:1"})
    reader.follow("a", 0, 3)
    reader.follow("a", 1, 4)
    clock.now += 31
    reader.poll(100, 0)
    consumers[0].fetched = [record("a", 0, 8)]
    reader.poll(100, 0)
    clock.now += 11
    with caplog.at_level(logging.WARNING):
        reader.poll(100, 0)
    assert "1 of 2 topic partitions give no answer, such as a-1" in caplog.text
    first, second = consumers
    assert first.closed
    assert second.assigned == {("a", 0): 9, ("a", 1): 4}
    second.fetched = [record("a", 1, 4), record("a", 0, 9)]
    assert {p: c.offsets for p, c in reader.poll(100, 0).chunks.items()} == {
        ("a", 1): [4], ("a", 0): [9],
    }  # fmt: skip


def test_what_is_left_is_not_asked_for(clock: _Clock, consumers: list[_Consumer]) -> None:
    reader = TailReader({"bootstrap.servers": "nowhere:1"})
    reader.follow("a", 0, 3)
    reader.leave("a", 0)
    clock.now += 100
    assert reader.poll(100, 0) == Tail()
    assert consumers[0].assigned == {}
