"""A reader while a partition has no leader, without a broker: the moment is rare on a real one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, repeat
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from holdfast.errors import KafkaUnavailable, TopicMissing
from holdfast.transport import reader
from holdfast.transport.reader import PartitionReader, in_columns

_NO_LEADER = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
_NO_TOPIC = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


class _Answers:
    """A consumer whose watermarks are the given answers, one per question."""

    def __init__(self, answers: Iterator[KafkaError | tuple[int, int]]) -> None:
        self.answers = answers

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        answer = next(self.answers)
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        return answer

    def close(self) -> None:
        """Nothing is held."""


def _reader(
    monkeypatch: pytest.MonkeyPatch,
    *answers: Any,
    then: Any = _NO_LEADER,
    exists: bool = False,
) -> PartitionReader:
    consumer = _Answers(chain(answers, repeat(then)))
    monkeypatch.setattr(reader, "Consumer", lambda config: consumer)
    monkeypatch.setattr(reader, "_RETRY_S", 0.001)
    monkeypatch.setattr(reader, "_FORGOTTEN_S", 0.05)
    client = {"bootstrap.servers": "nowhere:1"}
    return PartitionReader(client, "t", 0, timeout_s=0.05, exists=exists)


def test_bounds_are_asked_again_until_there_is_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _reader(monkeypatch, _NO_LEADER, _NO_LEADER, then=(3, 7)).bounds() == (3, 7)


def test_a_partition_that_stays_without_leader_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KafkaUnavailable, match="topic t partition 0"):
        _reader(monkeypatch).bounds()


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_a_broker_that_has_just_started_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    forgets = KafkaError(code)
    asked = _reader(monkeypatch, forgets, forgets, then=(3, 7), exists=True)
    assert asked.bounds() == (3, 7)
    # A read that the broker refused meanwhile is to be tried again: the topic is there.
    assert isinstance(asked._failed(forgets, 3, 7), KafkaUnavailable)


def test_a_topic_that_stays_away_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TopicMissing):
        _reader(monkeypatch, then=_NO_TOPIC, exists=True).bounds()
    with pytest.raises(TopicMissing):
        _reader(monkeypatch, then=_NO_TOPIC, exists=True)._failed(_NO_TOPIC, 3, 7)


def test_a_missing_topic_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TopicMissing):
        _reader(monkeypatch, _NO_TOPIC, then=(0, 0)).bounds()


def _messages(first: int, *values: bytes | None) -> list[Message]:
    return [
        Message(topic="t", partition=0, offset=at, key=b"k%d" % n, value=value, timestamp=(1, n))
        for n, (at, value) in enumerate(zip(count(first), values, strict=False))
    ]


def test_chunks_that_follow_each_other_become_one() -> None:
    chunk = in_columns(_messages(5, b"a", b"b"), 7)
    assert chunk.values
    chunk.append(in_columns(_messages(7, b"c", None, b"e"), 11))
    assert (len(chunk), chunk.position) == (5, 11)
    assert chunk.keys == [b"k0", b"k1", b"k0", b"k1", b"k2"]
    assert chunk.values == [b"a", b"b", b"c", None, b"e"]
    assert chunk.offsets == [5, 6, 7, 8, 9]
    assert chunk.timestamps == [0, 1, 0, 1, 2]
    assert chunk.since(8).values == [None, b"e"]


def test_a_chunk_makes_the_columns_that_are_asked_for() -> None:
    chunk = in_columns(_messages(5, b"a", None, b"c"), 9)
    assert (len(chunk), chunk.position, chunk.headers) == (3, 9, [])
    assert chunk.values == [b"a", None, b"c"]
    assert "keys" not in vars(chunk)
    part = chunk.part(1, 3, 8)
    assert (part.keys, part.offsets, part.timestamps) == ([b"k1", b"k2"], [6, 7], [1, 2])
    assert part.position == 8
    assert chunk.since(6).keys == part.keys
    with pytest.raises(AttributeError, match="a chunk has no partition"):
        chunk.partition  # type: ignore[attr-defined]  # noqa: B018
