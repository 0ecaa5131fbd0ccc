"""A job whose queries read each other's topics, beside the truth about its input."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson

from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.transport.reader import PartitionReader
from tests.support.jobs.running_job import WAIT_S, RunningJob

__all__ = ["ChainedJob", "Events"]

# A customer that goes from 3 to 4 events leaves the level 3: a change that is lost, or counted
# twice, between the three queries leaves a level wrong for ever.
SQL = """
CREATE STREAM events (customer STRING, amount BIGINT, ts BIGINT)
  WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', TIMESTAMP='ts');
CREATE TABLE totals WITH (KAFKA_TOPIC='{totals}') AS
  SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM events
  GROUP BY customer EMIT CHANGES;
CREATE TABLE levels WITH (KAFKA_TOPIC='{levels}') AS
  SELECT n, COUNT(*) AS customers FROM totals GROUP BY n EMIT CHANGES;
CREATE STREAM large WITH (KAFKA_TOPIC='{large}') AS
  SELECT customer, amount FROM events WHERE amount > 90;
"""


@dataclass
class Events:
    """The input of one or several jobs, and what they make of it.

    Attributes:
        amounts: of each record, in order, by customer.
    """

    client: dict[str, str]
    topic: str
    customers: int = 300
    sent: int = 0
    amounts: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Admin(self.client).ensure_topic(self.topic, 3, -1, {})

    def produce(self, records: int) -> None:
        """Adds records of random customers."""
        rng = random.Random(self.sent)
        self._send([f"c{rng.randrange(self.customers)}" for _ in range(records)], rng)

    @contextmanager
    def coming_in(self) -> Iterator[None]:
        """Adds records all the time, fewer than a busy machine's job takes in that time.

        Otherwise the wait for the end is the work on a backlog, whose size nobody chose.
        """
        ended = threading.Event()

        def write() -> None:
            while not ended.wait(0.1):
                self.produce(40)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            ended.set()
            writer.join()

    def touch_all(self) -> None:
        """Adds a record of every customer that there is."""
        self._send(sorted(self.amounts), random.Random(self.sent))

    def _send(self, customers: list[str], rng: random.Random) -> None:
        producer = Producer(self.client)
        for customer in customers:
            value = {"customer": customer, "amount": rng.randrange(100), "ts": self.sent}
            producer.send(self.topic, customer.encode(), orjson.dumps(value))
            self.amounts.setdefault(customer, []).append(value["amount"])  # type: ignore[arg-type]
            self.sent += 1
        producer.flush()

    def amounts_before(self, offsets: dict[int, int]) -> list[int]:
        """The amounts of the records before these offsets, by topic partition."""
        found = []
        for partition, end in offsets.items():
            reader = PartitionReader(self.client, self.topic, partition)
            for chunk in reader.read(0, end):
                found += [orjson.loads(value or b"")["amount"] for value in chunk.values]
            reader.close()
        return found

    def totals(self) -> dict[str, dict[str, int]]:
        return {c: {"N": len(a), "TOTAL": sum(a)} for c, a in self.amounts.items()}

    def levels(self) -> Counter[int]:
        return Counter(len(amounts) for amounts in self.amounts.values())

    def large(self) -> int:
        return sum(amount > 90 for each in self.amounts.values() for amount in each)


@dataclass
class ChainedJob(RunningJob):
    """One application with sinks of its own."""

    events: Events

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.properties = {
            "state.partitions": "4",
            "max.offsets.per.trigger": "1000",
            **self.properties,
        }
        names = {name: self.sink(name) for name in ("totals", "levels", "large")}
        (self.home / "job.sql").write_text(SQL.format(topic=self.events.topic, **names))

    def sink(self, name: str) -> str:
        return f"{self.application_id}-{name}"

    def last(self, name: str) -> dict[bytes, dict[str, int]]:
        """The last value of each key in a sink."""
        pairs = self.records(self.sink(name))
        return {k: orjson.loads(v) for k, v in pairs if k is not None and v is not None}

    def count(self, name: str) -> int:
        """How many records a sink has."""
        return sum(len(chunk) for chunk in self.chunks(self.sink(name)))

    def until_right(self, large: int) -> None:
        """Waits until every row in its sinks is that of the whole input.

        Args:
            large: how many records the stream has then.
        """
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return self._check(large)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(1)

    def _check(self, large: int) -> None:
        assert self.count("large") == large
        totals = {key.decode(): value for key, value in self.last("totals").items()}
        assert totals == self.events.totals()
        levels = self.events.levels()
        for key, value in self.last("levels").items():
            level = int.from_bytes(key, "big")
            assert value == {"CUSTOMERS": levels[level]}, f"level {level}"
