"""Approximate aggregates of a real job: near the exact answers, across a restart, and judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pytest

from holdfast.judge.oracle import Oracle, OracleOptions
from holdfast.judge.read.observe import Observer
from holdfast.judge.verdict import Verdict
from holdfast.local.broker import BrokerStatus
from holdfast.sql import compile_text
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from tests.support.jobs.running_job import RunningJob

SQL = """
CREATE STREAM s (shop STRING, visitor STRING, spent DOUBLE)
  WITH (KAFKA_TOPIC='{0}-in', VALUE_FORMAT='JSON');
CREATE TABLE near WITH (KAFKA_TOPIC='{0}-near') AS
  SELECT shop, COUNT(*) AS n, APPROX_COUNT_DISTINCT(visitor) AS visitors,
    APPROX_QUANTILE(spent, 0.5, 0.99) AS spent, APPROX_TOP_K(visitor, 3) AS most,
    COUNT_DISTINCT(visitor) AS exactly
  FROM s GROUP BY shop EMIT CHANGES;
"""
RECORDS, PARTITIONS = 24_000, 3


def _records() -> list[dict[str, Any]]:
    """Nine in ten are of one shop; one visitor in five is one of two."""
    rng = np.random.default_rng(11)
    shops = np.where(rng.random(RECORDS) < 0.9, 0, rng.integers(1, 40, RECORDS))
    visitors = np.where(rng.random(RECORDS) < 0.2, rng.integers(0, 2, RECORDS), 9)
    others = rng.integers(10, 9_000, RECORDS)
    visitors = np.where(visitors < 9, visitors, others)
    spent = rng.lognormal(3, 1, RECORDS).round(2)
    rows = zip(shops.tolist(), visitors.tolist(), spent.tolist(), strict=True)
    return [{"shop": f"shop {s}", "visitor": f"v{v}", "spent": x} for s, v, x in rows]


@dataclass
class Job(RunningJob):
    """One application with one executor, whose sketches meet in the state partitions."""

    def __post_init__(self) -> None:
        self.properties |= {"state.partitions": "4", "executors": "1"}
        (self.home / "job.sql").write_text(self.sql)
        Admin(self.client).ensure_topic(f"{self.application_id}-in", PARTITIONS, -1, {})

    @property
    def sql(self) -> str:
        return SQL.format(self.application_id)

    def produce(self, records: list[dict[str, Any]]) -> None:
        producer = Producer(self.client)
        for n, record in enumerate(records):
            topic = f"{self.application_id}-in"
            producer.send(topic, None, orjson.dumps(record), partition=n % PARTITIONS)
        producer.flush()

    def rows(self) -> dict[str, dict[str, Any]]:
        pairs = self.records(f"{self.application_id}-near")
        return {(k or b"").decode(): orjson.loads(v or b"null") for k, v in pairs}


@pytest.fixture(scope="module")
def job(kafka: BrokerStatus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """It ran until it was caught up, and again over the other half of the records."""
    home = tmp_path_factory.mktemp("approximate")
    made = Job(home, {"bootstrap.servers": kafka.bootstrap_servers}, "approximate")
    records = _records()
    for half in (records[: RECORDS // 2], records[RECORDS // 2 :]):
        made.produce(half)
        ended = made.finish()
        assert ended.returncode == 0, ended.stderr
    yield made
    made.stop()


def test_every_group_is_near_its_exact_answers(job: Job) -> None:
    by_shop: dict[str, list[dict[str, Any]]] = {}
    for record in _records():
        by_shop.setdefault(record["shop"], []).append(record)
    found = job.rows()
    assert found.keys() == by_shop.keys()
    for shop, records in by_shop.items():
        row, visitors = found[shop], Counter(r["visitor"] for r in records)
        assert (row["N"], row["EXACTLY"]) == (len(records), len(visitors))
        assert abs(row["VISITORS"] - len(visitors)) <= max(1, 0.05 * len(visitors)), shop
        spent = [r["spent"] for r in records]
        for share, value in zip((0.5, 0.99), row["SPENT"], strict=True):
            bounds = [share - 0.02, min(share + 0.02, 1)]
            least = np.quantile(spent, bounds[0], method="lower")
            most = np.quantile(spent, bounds[1], method="higher")
            assert least <= value <= most, (shop, share, value)
        slack = len(records) * 3.5 / 1024
        assert {e["ITEM"] for e in row["MOST"][:2]} == {"v0", "v1"}
        assert all(0 <= e["COUNT"] - visitors[e["ITEM"]] <= slack for e in row["MOST"]), shop


def test_the_judge_finds_it_valid(job: Job) -> None:
    topology = compile_text(job.sql)
    oracle = Oracle(
        job.application_id, Observer(job.client, job.application_id), options=OracleOptions(30, 30)
    )
    (table,) = oracle.judge(topology).tables
    checked = next(f for f in table.findings if f.checker == "diverged_values")
    assert checked.verdict is Verdict.VALID, checked
    assert checked.fact == "0 of 40 compared rows differ"
