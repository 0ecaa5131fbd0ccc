"""A windowed table behind other queries counts what it counts straight from the topic."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.tasks.evaluate.keys import split_windowed
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.transport.reader import PartitionReader
from holdfast.types.statements.topology import WindowKind

ORDERS, CUSTOMERS, PARTITIONS = 9_000, 60, 4
STEP_MS, DISORDER_MS = 6_680, 30_000  # 16.7 hours of orders
HOUR_MS, GRACE_MS = 3_600_000, 300_000
START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
WAIT_S = 280.0

SQL = """
CREATE STREAM orders (id VARCHAR KEY, customer VARCHAR, failed BOOLEAN)
  WITH (KAFKA_TOPIC='{0}-orders', VALUE_FORMAT='JSON');
CREATE STREAM failures WITH (KAFKA_TOPIC='{0}-failures', PARTITIONS=4) AS
  SELECT id, customer FROM orders WHERE failed EMIT CHANGES;
CREATE STREAM once WITH (KAFKA_TOPIC='{0}-once', PARTITIONS=4, DEDUPLICATE_WITHIN='10 MINUTES') AS
  SELECT id, customer FROM failures EMIT CHANGES;
CREATE TABLE straight WITH (KAFKA_TOPIC='{0}-straight') AS
  SELECT customer, COUNT(*) AS n FROM orders
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 5 MINUTES)
  WHERE failed GROUP BY customer EMIT FINAL;
CREATE TABLE behind_where WITH (KAFKA_TOPIC='{0}-behind-where') AS
  SELECT customer, COUNT(*) AS n FROM failures
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 5 MINUTES) GROUP BY customer EMIT FINAL;
CREATE TABLE behind_once WITH (KAFKA_TOPIC='{0}-behind-once') AS
  SELECT customer, COUNT(*) AS n FROM once
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 5 MINUTES) GROUP BY customer EMIT FINAL;
"""
Table = dict[tuple[str, int], int]

pytestmark = pytest.mark.timeout(300)


def _order(client: dict[str, str], topic: str) -> Table:
    """Sends the orders; the failures by customer and window."""
    rng = random.Random(21)
    producer = Producer(client)
    truth: Counter[tuple[str, int]] = Counter()
    for n in range(ORDERS):
        customer, failed = f"c{rng.randrange(CUSTOMERS)}", rng.random() < 0.1
        at = START_MS + STEP_MS * n - rng.randrange(DISORDER_MS)
        value = orjson.dumps({"customer": customer, "failed": failed})
        producer.send(topic, b"o%d" % n, value, timestamp_ms=at)
        if failed:
            truth[customer, at // HOUR_MS * HOUR_MS] += 1
    producer.flush()
    return dict(truth)


def _table(client: dict[str, str], topic: str) -> Table:
    return {
        (key.decode(), start): orjson.loads(value)["N"]
        for key, start, value in _rows(client, topic)
    }


def _rows(client: dict[str, str], topic: str) -> Iterator[tuple[bytes, int, bytes]]:
    for partition, (first, end) in Admin(client).bounds(topic).items():
        reader = PartitionReader(client, topic, partition)
        for chunk in reader.read(first, end):
            for key, value in zip(chunk.keys, chunk.values, strict=True):
                assert key is not None
                assert value is not None
                plain, start, _ = split_windowed(key, WindowKind.TUMBLING, HOUR_MS)
                yield plain, start, value
        reader.close()


@pytest.mark.parametrize(("most", "executors"), [(0, 1), (2_000, 2)])
def test_a_table_counts_the_same_straight_and_behind_other_queries(
    most: int,
    executors: int,
    kafka: BrokerStatus,
    kafka_topic_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    name = kafka_topic_name("chain")
    Admin(client).ensure_topic(f"{name}-orders", PARTITIONS, -1, {})
    truth = _order(client, f"{name}-orders")
    (tmp_path / "job.sql").write_text(SQL.format(name))
    properties = {
        "bootstrap.servers": kafka.bootstrap_servers, "application.id": name,
        "state.partitions": "2", "max.offsets.per.trigger": str(most), "executors": str(executors),
    }  # fmt: skip
    sets = [part for k, v in properties.items() for part in ("--set", f"{k}={v}")]
    ended = subprocess.run(
        [sys.executable, "-m", "holdfast.cli.main", "run", str(tmp_path / "job.sql"),
         "--home", str(tmp_path), *sets, "--until-caught-up"],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    straight = _table(client, f"{name}-straight")
    last = START_MS + STEP_MS * ORDERS
    closed = {k: n for k, n in truth.items() if k[1] + 2 * HOUR_MS + GRACE_MS < last}
    assert closed.items() <= straight.items() <= truth.items()
    for behind in ("behind-where", "behind-once"):
        found = _table(client, f"{name}-{behind}")
        assert (behind, len(found), found == straight) == (behind, len(straight), True)
