"""One poll of many topic partitions: the client gives records and events in any mixture."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, Message

from holdfast.transport.tail import Tail, TailReader


class _Consumer:
    """A consumer that has fetched these messages."""

    def __init__(self, fetched: list[Message]) -> None:
        self.fetched = fetched

    def incremental_assign(self, places: list[Any]) -> None:
        """Whatever is followed has been fetched already."""

    incremental_unassign = incremental_assign

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
