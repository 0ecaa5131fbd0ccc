"""`holdfast test --broker`: the same cases as jobs on a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient

from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin

CASE = {
    "name": "sums",
    "statements": [
        "CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='sums-in', VALUE_FORMAT='JSON');",
        "CREATE TABLE t (k STRING PRIMARY KEY, f INT)",
        "WITH (KAFKA_TOPIC='sums-t', VALUE_FORMAT='JSON');",
        # A join and then a sum: two queries with an internal topic between them.
        "CREATE TABLE sums_out AS SELECT s.k, SUM(s.v * t.f) AS total",
        "FROM s JOIN t ON s.k = t.k GROUP BY s.k;",
        "INSERT INTO t (k, f, ROWTIME) VALUES ('a', 1, 1);",
        "INSERT INTO t (k, f, ROWTIME) VALUES ('b', 1, 1);",
    ],
    "inputs": [
        {"topic": "sums-in", "key": "a", "value": {"V": 1}, "timestamp": 2},
        {"topic": "sums-in", "key": "b", "value": {"V": 5}, "timestamp": 7},
        {"topic": "sums-in", "key": "a", "value": {"V": 2}, "timestamp": 8},
    ],
    "outputs": [
        {"topic": "SUMS_OUT", "key": "a", "value": {"TOTAL": 1}, "timestamp": 2},
        {"topic": "SUMS_OUT", "key": "b", "value": {"TOTAL": 5}, "timestamp": 7},
        {"topic": "SUMS_OUT", "key": "a", "value": {"TOTAL": 3}, "timestamp": 8},
    ],
}


def _run(path: Path, kafka: BrokerStatus) -> tuple[int, str]:
    command = [sys.executable, "-m", "holdfast.cli.main", "test", str(path), "--json", "--broker"]
    done = subprocess.run(
        [*command, kafka.bootstrap_servers], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_case_passes_on_a_broker_and_leaves_nothing_there(
    kafka: BrokerStatus, tmp_path: Path
) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"tests": [CASE]}))
    status, said = _run(path, kafka)
    assert status == 0, said
    left = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=30)
    assert [t for t in left.topics if t.startswith("holdfast-test-") or "sums" in t.lower()] == []


def test_topics_that_exist_are_not_touched(kafka: BrokerStatus, tmp_path: Path) -> None:
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.ensure_topic("taken", 1)
    text = json.dumps({"tests": [CASE]}).replace("sums-in", "taken")
    path = tmp_path / "cases.json"
    path.write_text(text)
    status, said = _run(path, kafka)
    assert status == 1
    assert "has the topic taken already" in said
    assert admin.describe("taken") is not None
