"""Every client that is kept for long goes on after its broker was restarted in place.

A restart gives every topic partition a new leader epoch, which a client that is older does not
know: what it sends along is refused until it asks for the cluster's metadata again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast.local.broker import BrokerStatus, LocalKafka
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.cluster.view import ClusterView
from holdfast.transport.producer import Producer, TransactionalProducer
from holdfast.transport.reader import PartitionReader
from holdfast.transport.record_count import RecordCount
from holdfast.transport.tail import TailReader

TOPIC = "t"
PLACE = (TOPIC, 0)
_WITHIN_S = 20.0
Question = Callable[[], object]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalKafka]:
    own = LocalKafka(tmp_path / "kafka")
    yield own
    own.wipe()


def _restart(own: LocalKafka, broker: BrokerStatus) -> None:
    os.kill(broker.pid, signal.SIGKILL)
    while own.status() is not None:
        time.sleep(0.1)
    own.start(port=broker.port)


def _kept(client: dict[str, str]) -> dict[str, Question]:
    """A question to each client that a job, a server or a tool keeps."""
    admin, view = shared_admin(client), ClusterView(client)
    reader, tail, counted = (
        PartitionReader(client, *PLACE),
        TailReader(client),
        RecordCount(client, TOPIC),
    )
    plain, transactional = Producer(client), TransactionalProducer(client, "kept")
    names = (f"new-{n}" for n in count())
    tail.follow(*PLACE, 0)
    transactional.init()

    def send() -> None:
        plain.send(TOPIC, b"k", b"v", partition=0)
        plain.flush()

    def commit() -> None:
        transactional.begin()
        transactional.send(TOPIC, 0, [b"k"], [b"v"])
        transactional.commit()

    def followed() -> int:
        wanted = Admin(client).high_watermarks(TOPIC)[0]
        deadline = time.monotonic() + _WITHIN_S
        while time.monotonic() < deadline:
            if tail.poll(100, 0.1).ends.get(PLACE, -1) >= wanted:
                return wanted
        raise AssertionError(f"the tail has not reached {wanted}")

    def read() -> int:
        start, end = reader.bounds()
        return sum(map(len, reader.read(start, end)))

    return {
        "await_ended": lambda: admin.await_ended(*PLACE, _WITHIN_S),
        "bounds": reader.bounds,
        "starts": lambda: view.starts([PLACE]),
        "ends": lambda: view.ends([PLACE]),
        "newest": lambda: view.newest([PLACE]),
        "read": read,
        "send": send,
        "commit": commit,
        "followed": followed,
        "counted": counted.count,
        "admin.bounds": lambda: admin.bounds(TOPIC),
        "admin.first_at": lambda: admin.first_at(TOPIC, 0),
        "admin.describe": lambda: admin.describe(TOPIC),
        "admin.config": lambda: admin.config(TOPIC),
        "admin.committed": lambda: admin.committed("g", TOPIC),
        "admin.commit_group": lambda: admin.commit_group("g", TOPIC, {0: 1}),
        "settings": lambda: TopicSettings(client).alter(TOPIC, {"retention.ms": "-1"}),
        "admin.delete_records": lambda: admin.delete_records({PLACE: 1}),
        "admin.ensure_topic": lambda: admin.ensure_topic(next(names), 1),
    }


def test_kept_clients_go_on_after_a_restart(own: LocalKafka) -> None:
    broker = own.start(port=0)
    client = {"bootstrap.servers": broker.bootstrap_servers}
    Admin(client).ensure_topic(TOPIC, 1)
    questions = _kept(client)
    for ask in questions.values():
        ask()
    _restart(own, broker)
    for ask in questions.values():
        ask()
