"""The tail of a real broker's topic partitions, whatever its consumer forgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from holdfast.local.broker import BrokerStatus
from holdfast.transport import tail as module
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.transport.tail import TailReader

PARTITIONS = 3
WAIT_S = 30.0


class _Job:
    """A topic, its producer, and what a tail has given of it."""

    def __init__(self, servers: str, topic: str) -> None:
        client = {"bootstrap.servers": servers}
        Admin(client).ensure_topic(topic, PARTITIONS)
        self.topic, self.reader = topic, TailReader(client)
        self._producer = Producer(client)
        self.sent = 0
        self.got: dict[int, list[int]] = {p: [] for p in range(PARTITIONS)}
        for partition in self.got:
            self.reader.follow(topic, partition, 0)

    def send(self) -> None:
        for partition in self.got:
            self._producer.send(self.topic, b"k", b"%d" % self.sent, partition=partition)
        self._producer.flush()
        self.sent += 1

    def poll(self) -> None:
        tail = self.reader.poll(100, 0.01)
        assert not tail.failed
        for (_, partition), chunk in tail.chunks.items():
            self.got[partition] += [int(value or b"") for value in chunk.values]

    def until_level(self) -> None:
        deadline = time.monotonic() + WAIT_S
        while any(len(got) < self.sent for got in self.got.values()):
            assert time.monotonic() < deadline, self.got
            self.poll()
        assert self.got == {p: list(range(self.sent)) for p in range(PARTITIONS)}


@pytest.fixture
def job(kafka: BrokerStatus, kafka_topic_name: Callable[[str], str]) -> Iterator[_Job]:
    job = _Job(kafka.bootstrap_servers, kafka_topic_name("tail"))
    yield job
    job.reader.close()


def _often(monkeypatch: pytest.MonkeyPatch, silent_s: float, answer_s: float) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.0)
    monkeypatch.setattr(module, "_SILENT_S", silent_s)
    monkeypatch.setattr(module, "_ANSWER_S", answer_s)


@pytest.mark.parametrize(("silent_s", "answer_s"), [(0.0, WAIT_S), (0.01, 0.01)])
def test_nothing_is_lost_or_doubled_however_often_it_is_asked_for(
    job: _Job, monkeypatch: pytest.MonkeyPatch, silent_s: float, answer_s: float
) -> None:
    """The second time each consumer lives for a moment only, and gives less than it has fetched."""
    _often(monkeypatch, silent_s, answer_s)
    for _ in range(60):
        job.send()
        job.poll()
    monkeypatch.undo()
    job.until_level()


class _Deaf(Consumer):
    """A consumer that fetches no more of what is assigned to it anew."""

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        super().incremental_assign(places)
        self.pause(places)


def test_a_consumer_that_fetches_no_more_is_replaced(
    job: _Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.send()
    job.until_level()
    made: list[Consumer] = []

    def deaf_at_first(config: dict[str, Any]) -> Consumer:
        made.append(Consumer(config) if made else _Deaf(config))
        return made[-1]

    monkeypatch.setattr(module, "Consumer", deaf_at_first)
    job.reader.close()
    for partition in job.got:
        job.reader.follow(job.topic, partition, job.sent)
    job.send()
    _often(monkeypatch, 0.5, 0.5)
    job.until_level()
    assert len(made) > 1
