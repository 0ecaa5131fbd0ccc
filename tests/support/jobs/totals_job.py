"""A job that counts and sums the amounts of customers, beside the truth about its input."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from holdfast.state.topics.sink_owners import SinkOwners
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.transport.reader import Chunk
from holdfast.types.ids import consumer_group
from holdfast.types.status import JobStatus, PartitionStatus
from tests.support.jobs.running_job import RunningJob

__all__ = ["TotalsJob", "partitions_of", "records_of"]

SQL = """
CREATE STREAM events (customer STRING, amount BIGINT, ts BIGINT)
  WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', TIMESTAMP='ts');
CREATE TABLE totals WITH (KAFKA_TOPIC='{totals}') AS
  SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM events
  GROUP BY customer EMIT CHANGES;
CREATE STREAM large WITH (KAFKA_TOPIC='{large}') AS
  SELECT customer, amount * 2 AS twice FROM events WHERE amount > 90;
"""


@dataclass
class TotalsJob(RunningJob):
    """One application: its files, its topics, and the truth about what was sent to it."""

    topic: str
    customers: int = 500
    count: Counter[bytes] = field(default_factory=Counter)
    total: Counter[bytes] = field(default_factory=Counter)
    large: Counter[tuple[bytes, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.properties |= {"state.partitions": "4", "max.offsets.per.trigger": "2000"}
        Admin(self.client).ensure_topic(self.topic, 3, -1, {})
        names = {"topic": self.topic, "totals": self.totals_topic, "large": self.large_topic}
        (self.home / "job.sql").write_text(SQL.format(**names))

    @property
    def totals_topic(self) -> str:
        return f"{self.topic}-totals"

    @property
    def large_topic(self) -> str:
        return f"{self.topic}-large"

    def produce(self, records: int, seed: int) -> None:
        rng = random.Random(seed)
        producer = Producer(self.client)
        for n in range(records):
            customer = f"c{rng.randrange(self.customers)}".encode()
            amount = rng.randrange(100)
            value = {"customer": customer.decode(), "amount": amount, "ts": 1_700_000_000_000 + n}
            headers = {"twice": str(amount * 2)}
            producer.send(self.topic, customer, orjson.dumps(value), headers=headers)
            self.count[customer] += 1
            self.total[customer] += amount
            self.large[customer, amount * 2] += amount > 90
        producer.flush()

    def owned(self) -> set[str]:
        claims = SinkOwners(Admin(self.client), self.client).claims()
        return {c.sink for c in claims if c.application_id == self.application_id}

    def check_exact(self) -> None:
        """The table's last values and every record of the stream, against the truth."""
        table = {k: orjson.loads(v) for k, v in self.records(self.totals_topic) if k and v}
        assert table == {k: {"N": n, "TOTAL": self.total[k]} for k, n in self.count.items()}
        seen: dict[bytes, int] = {}
        for key, value in self.records(self.totals_topic):
            assert key is not None
            assert value is not None
            n = orjson.loads(value)["N"]
            assert n > seen.get(key, 0), f"{key!r} went from {seen.get(key)} to {n}"
            seen[key] = n
        large = [(v, h) for c in self.chunks(self.large_topic) for v, h in _with_headers(c)]
        rows = [orjson.loads(v) for v, _ in large if v is not None]
        twice = Counter((row["CUSTOMER"].encode(), row["TWICE"]) for row in rows)
        assert twice == +self.large
        headers = [[("twice", str(row["TWICE"]).encode())] for row in rows]
        assert [h for _, h in large] == headers, "each has those of the record it was made of"

    def lag(self) -> int:
        """Offsets that the slower of the two queries has not committed."""
        admin = Admin(self.client)
        ends = {p: end for p, (_, end) in admin.bounds(self.topic).items()}

        def of(query_id: str) -> int:
            committed = admin.committed(consumer_group(self.application_id, query_id), self.topic)
            return sum(end - committed.get(p, 0) for p, end in ends.items())

        return max(of("ctas_totals"), of("csas_large"))


def partitions_of(status: JobStatus) -> tuple[PartitionStatus, ...]:
    """The state partitions of the table."""
    return status.queries["ctas_totals"].state_partitions


def records_of(status: JobStatus) -> int:
    """How many records the table has counted."""
    return status.queries["ctas_totals"].records_total


def _with_headers(
    chunk: Chunk,
) -> Iterator[tuple[bytes | None, list[tuple[str, bytes | None]]]]:
    return zip(chunk.values, chunk.headers, strict=True)
