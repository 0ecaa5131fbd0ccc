"""The two brokers of the contract: the fake one of the simulation, and a real one."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import psutil
import pytest

from holdfast.errors import CommitUnknown
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import PartitionReader
from tests.integration.ingest.topics import add_partitions, delete_records
from tests.integration.transport.settling import await_settled
from tests.simulation.clock import VirtualTime
from tests.simulation.fake_clients import FakeProducer, clients
from tests.simulation.fake_kafka import FakeKafka, Op, Trouble

__all__ = ["Broker", "FakeBroker", "RealBroker"]

_DEADLINE_S = 90.0  # the one cleaner of the broker may have other logs to clean


class Broker(Protocol):
    """What the contract needs beside the clients: means to bring about what it looks at."""

    admin: Admin

    def producer(self, transactional_id: str, timeout_ms: int = 20_000) -> TransactionalProducer:
        """A producer that has taken its transactional id."""

    def reader(self, topic: str, partition: int = 0, timeout_s: float = 20.0) -> PartitionReader:
        """`timeout_s` is also how long it waits for records beyond the end, at most 10 s."""

    def deliver(self, producer: TransactionalProducer) -> None:
        """Waits until the broker has every record of the open transaction."""

    def settle(self, topic: str) -> None:
        """Waits until every transaction that is decided has its control records."""

    def await_that(self, condition: Callable[[], bool]) -> None:
        """Waits until something holds that the broker does by itself."""

    def delete_before(self, topic: str, offset: int) -> None:
        """What retention does."""

    def add_partition(self, topic: str) -> None:
        """A topic gets one more partition."""

    def lose_answer(self, producer: TransactionalProducer) -> None:
        """Commits, and gets no answer."""


class FakeBroker:
    """The fake, with a clock that everybody turns."""

    def __init__(self, seed: int) -> None:
        self.clock = VirtualTime()
        self.rng = random.Random(seed)
        self.kafka = FakeKafka(self.clock, self.rng)
        self._clients = clients(self.kafka)
        self.admin = cast("Admin", self._clients.admin({}))

    def producer(self, transactional_id: str, timeout_ms: int = 20_000) -> TransactionalProducer:
        made = self._clients.producer({}, transactional_id, timeout_ms)
        made.init()
        return cast("TransactionalProducer", made)

    def reader(self, topic: str, partition: int = 0, timeout_s: float = 20.0) -> PartitionReader:
        return cast("PartitionReader", self._clients.reader({}, topic, partition))

    def deliver(self, producer: TransactionalProducer) -> None:
        fake = cast("FakeProducer", producer)
        fake._deliver(len(fake._buffer))

    def settle(self, topic: str) -> None:
        while self.kafka._concluding:
            self.kafka.go_on()

    def await_that(self, condition: Callable[[], bool]) -> None:
        end_s = self.clock.time() + _DEADLINE_S
        while not condition():
            assert self.clock.time() < end_s, "it does not happen"
            self.clock.sleep(0.1)

    def delete_before(self, topic: str, offset: int) -> None:
        self.kafka.log(topic, 0).delete_before(offset)

    def add_partition(self, topic: str) -> None:
        self.kafka.add_partition(topic)

    def lose_answer(self, producer: TransactionalProducer) -> None:
        outcomes = (Trouble.UNKNOWN_APPLIED, Trouble.UNKNOWN_LOST, Trouble.UNKNOWN_LATE)
        chosen = self.rng.choice(outcomes)
        self.kafka.trouble = lambda op: chosen if op is Op.COMMIT else None
        with pytest.raises(CommitUnknown):
            producer.commit()
        self.kafka.trouble = lambda _: None


class RealBroker:
    """The real one, with clients that are closed at the end."""

    def __init__(self, status: BrokerStatus) -> None:
        self._pid = status.pid
        self._servers = status.bootstrap_servers
        self._client: Mapping[str, str] = {"bootstrap.servers": self._servers}
        self.admin = Admin(self._client)
        self._open: list[Any] = []

    def producer(self, transactional_id: str, timeout_ms: int = 20_000) -> TransactionalProducer:
        made = TransactionalProducer(self._client, transactional_id, timeout_ms)
        self._open.append(made)
        made.init()
        return made

    def reader(self, topic: str, partition: int = 0, timeout_s: float = 20.0) -> PartitionReader:
        made = PartitionReader(self._client, topic, partition, timeout_s=timeout_s)
        self._open.append(made)
        return made

    def deliver(self, producer: TransactionalProducer) -> None:
        assert producer._client.flush(_DEADLINE_S) == 0

    def settle(self, topic: str) -> None:
        await_settled(self.admin, topic)

    def await_that(self, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + _DEADLINE_S
        while not condition():
            assert time.monotonic() < end_s, "it does not happen"
            time.sleep(0.1)

    def delete_before(self, topic: str, offset: int) -> None:
        delete_records(self._servers, topic, 0, offset)

    def add_partition(self, topic: str) -> None:
        found = self.admin.describe(topic)
        assert found is not None
        add_partitions(self._servers, topic, found.partitions + 1)

    def lose_answer(self, producer: TransactionalProducer) -> None:
        self.deliver(producer)
        os.kill(self._pid, signal.SIGSTOP)
        stopped = psutil.Process(self._pid)
        self.await_that(lambda: stopped.status() == psutil.STATUS_STOPPED)
        try:
            with pytest.raises(CommitUnknown):
                producer.commit()
            producer.close()
        finally:
            os.kill(self._pid, signal.SIGCONT)

    def close(self) -> None:
        for client in self._open:
            client.close()
