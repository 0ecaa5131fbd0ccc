"""Joins, their internal topics and sessions as whole jobs, executors killed on the way."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.transport.reader import PartitionReader
from tests.support.jobs.running_job import RunningJob

SQL = """
CREATE STREAM orders (id VARCHAR KEY, customer VARCHAR, amount BIGINT)
  WITH (KAFKA_TOPIC='{0}-orders', VALUE_FORMAT='JSON');
CREATE STREAM payments (id VARCHAR KEY, paid BIGINT)
  WITH (KAFKA_TOPIC='{0}-payments', VALUE_FORMAT='JSON');
CREATE TABLE customers (customer VARCHAR PRIMARY KEY, city VARCHAR)
  WITH (KAFKA_TOPIC='{0}-customers', VALUE_FORMAT='JSON');
CREATE STREAM settled WITH (KAFKA_TOPIC='{0}-settled') AS
  SELECT o.id, o.amount AS amount, p.paid AS paid FROM orders o
  JOIN payments p WITHIN 1 HOUR ON o.id = p.id EMIT CHANGES;
CREATE STREAM placed WITH (KAFKA_TOPIC='{0}-placed') AS
  SELECT o.customer, o.id AS id, c.city AS city FROM orders o
  LEFT JOIN customers c ON o.customer = c.customer EMIT CHANGES;
CREATE TABLE owed WITH (KAFKA_TOPIC='{0}-owed') AS
  SELECT c.city AS city, SUM(o.amount) AS amount FROM orders o
  JOIN customers c ON o.customer = c.customer GROUP BY c.city EMIT CHANGES;
CREATE TABLE inhabitants WITH (KAFKA_TOPIC='{0}-inhabitants') AS
  SELECT city, COUNT(*) AS n FROM customers GROUP BY city EMIT CHANGES;
CREATE TABLE bursts WITH (KAFKA_TOPIC='{0}-bursts') AS
  SELECT customer, COUNT(*) AS n FROM orders WINDOW SESSION (2 SECONDS)
  GROUP BY customer EMIT CHANGES;
"""
CITIES = ["Rome", "Oslo", "Bonn", "Lima"]
START_MS = 1_700_000_000_000

pytestmark = pytest.mark.timeout(900)


@dataclass
class Truth:
    """The records sent, and the results expected from them."""

    orders: list[tuple[str, str, int, int]] = field(default_factory=list)
    payments: list[tuple[str, int]] = field(default_factory=list)
    cities: dict[str, str] = field(default_factory=dict)

    def settled(self) -> Counter[tuple[Any, ...]]:
        """All records lie within the hour: every pair of one id."""
        paid = defaultdict(list)
        for order, amount in self.payments:
            paid[order].append(amount)
        return Counter((o, amount, p) for o, _, amount, _ in self.orders for p in paid[o])

    def placed(self) -> Counter[tuple[Any, ...]]:
        return Counter((c, o, self.cities.get(c)) for o, c, _, _ in self.orders)

    def owed(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for _, customer, amount, _ in self.orders:
            if customer in self.cities:
                total[self.cities[customer]] += amount
        return dict(total)

    def bursts(self) -> dict[tuple[str, int, int], int]:
        """(customer, first and last time of a session) -> orders in it."""
        found: dict[tuple[str, int, int], int] = {}
        times = defaultdict(list)
        for _, customer, _, at in self.orders:
            times[customer].append(at)
        for customer, of_customer in times.items():
            ordered = sorted(of_customer)
            first = 0
            for n, at in enumerate(ordered):
                if n + 1 == len(ordered) or ordered[n + 1] - at > 2_000:
                    found[customer, ordered[first], at] = n + 1 - first
                    first = n + 1
        return found


@dataclass
class Job(RunningJob):
    """One application: its files, its topics, and the truth about what was sent to it."""

    truth: Truth = field(default_factory=Truth)

    @property
    def name(self) -> str:
        return self.application_id

    def __post_init__(self) -> None:
        self.properties |= {"state.partitions": "3", "max.offsets.per.trigger": "1000"}
        for topic, partitions in (("orders", 3), ("payments", 2), ("customers", 1)):
            Admin(self.client).ensure_topic(f"{self.name}-{topic}", partitions, -1, {})
        (self.home / "job.sql").write_text(SQL.format(self.name))

    def settle_customers(self, count: int) -> None:
        """Every customer moves once; three of four live somewhere in the end."""
        producer = Producer(self.client)
        for n in range(count):
            for move in (1, 0):
                city = CITIES[(n + move) % len(CITIES)]
                value = None if not move and n % 4 == 3 else orjson.dumps({"city": city})
                at = START_MS - 1_000_000 + n
                producer.send(f"{self.name}-customers", b"c%d" % n, value, timestamp_ms=at)
            if n % 4 != 3:
                self.truth.cities[f"c{n}"] = CITIES[n % len(CITIES)]
        producer.flush()

    def trade(self, orders: int, seed: int) -> None:
        rng = random.Random(seed)
        producer = Producer(self.client)
        first = len(self.truth.orders)
        for n in range(first, first + orders):
            order, customer = f"o{n}", f"c{rng.randrange(60)}"
            amount, at = rng.randrange(100), START_MS + 100 * n
            self.truth.orders.append((order, customer, amount, at))
            value = {"customer": customer, "amount": amount}
            self._send(producer, "orders", order, value, at)
            for _ in range(rng.choice((0, 1, 1, 2))):
                paid_for, paid = f"o{rng.randrange(max(1, n - 20), n + 20)}", rng.randrange(100)
                self.truth.payments.append((paid_for, paid))
                self._send(producer, "payments", paid_for, {"paid": paid}, at)
        producer.flush()

    def _send(
        self, producer: Producer, topic: str, key: str, value: dict[str, Any], at: int
    ) -> None:
        data = orjson.dumps(value)
        producer.send(f"{self.name}-{topic}", key.encode(), data, timestamp_ms=at)

    def kill(self) -> None:
        """The driver at once, without a word; its executors find out."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=60)

    def read(self, topic: str) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
        name = f"{self.name}-{topic}"
        for partition, (start, end) in Admin(self.client).bounds(name).items():
            reader = PartitionReader(self.client, name, partition)
            for chunk in reader.read(start, end):
                for key, value in zip(chunk.keys, chunk.values, strict=True):
                    assert key is not None
                    yield key, None if value is None else orjson.loads(value)
            reader.close()

    def check_exact(self) -> None:
        settled = Counter(
            (k.decode(), v["AMOUNT"], v["PAID"]) for k, v in self.read("settled") if v
        )
        assert settled == self.truth.settled()
        placed = Counter((k.decode(), v["ID"], v["CITY"]) for k, v in self.read("placed") if v)
        assert placed == self.truth.placed()
        owed = dict(self.read("owed"))
        assert {k.decode(): v and v["AMOUNT"] for k, v in owed.items()} == self.truth.owed()
        inhabitants = {k.decode(): v["N"] for k, v in dict(self.read("inhabitants")).items() if v}
        living = Counter(self.truth.cities.values())
        assert {city: n for city, n in inhabitants.items() if n} == living
        last = dict(self.read("bursts"))
        bursts = {_session(k): v["N"] for k, v in last.items() if v is not None}
        assert bursts == self.truth.bursts()

    def check_purged(self) -> None:
        """Checks that records the last step has committed are deleted between the steps."""
        for between in ("ctas_owed_1-rows", "ctas_inhabitants_changes-rows"):
            bounds = Admin(self.client).bounds(f"{self.name}-{between}")
            assert sum(end for _, end in bounds.values()) > 0
            assert all(start == end for start, end in bounds.values()), bounds


def _session(key: bytes) -> tuple[str, int, int]:
    end, start = (int.from_bytes(key[at : at + 8], "big") for at in (len(key) - 16, len(key) - 8))
    return key[:-16].decode(), start, end


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Job]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    made = Job(tmp_path, client, kafka_topic_name("joins")[-40:])
    yield made
    made.kill()


def test_an_executor_and_the_driver_are_killed_and_every_result_is_there_once(job: Job) -> None:
    job.settle_customers(80)
    job.trade(800, seed=5)
    job.start()
    status = job.until(lambda s: s.queries["csas_settled"].records_total > 0, "the first results")
    job.kill_executor(next(e for e in status.executors if e.jvm_pid))
    job.trade(800, seed=6)
    job.until(lambda s: s.queries["csas_settled"].batch_id >= 2, "batches after the kill")
    job.kill()
    job.trade(300, seed=7)
    ended = job.finish()
    assert ended.returncode == 0, ended.stderr
    job.check_exact()
    job.check_purged()
