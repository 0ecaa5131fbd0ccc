"""Expressions before the shuffle on real executors, and what Spark's event log says of a job."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.types.ids import dead_letter_topic
from tests.support.jobs.running_job import RunningJob

FUNCTIONS = """
from holdfast import function

@function("LUCKY", args=["BIGINT"], returns="BOOLEAN")
def lucky(x):
    if x % 13 == 0:
        raise ValueError("unlucky")
    return x % 2 == 1
"""
SQL = """
CREATE STREAM s (k STRING KEY, x BIGINT, t STRING)
  WITH (KAFKA_TOPIC='{0}-in', VALUE_FORMAT='JSON');
CREATE TABLE cities (k STRING PRIMARY KEY, city STRING)
  WITH (KAFKA_TOPIC='{0}-cities', VALUE_FORMAT='JSON', BROADCAST=TRUE);
CREATE TABLE totals WITH (KAFKA_TOPIC='{0}-totals') AS
  SELECT k, COUNT(*) AS n, SUM(x) AS total FROM s WHERE LUCKY(x) GROUP BY k;
CREATE STREAM lucky_ones WITH (KAFKA_TOPIC='{0}-lucky') AS
  SELECT k, x FROM s WHERE LUCKY(x);
CREATE STREAM numbers WITH (KAFKA_TOPIC='{0}-numbers') AS
  SELECT k, x, CAST(t AS BIGINT) AS n FROM s WHERE CAST(t AS BIGINT) >= 50;
CREATE TABLE doubled WITH (KAFKA_TOPIC='{0}-doubled') AS
  SELECT UCASE(k) AS u, MAX(CAST(t AS BIGINT) * 2) AS most FROM s
  WHERE CAST(t AS BIGINT) >= 50 GROUP BY UCASE(k);
CREATE STREAM pairs WITH (KAFKA_TOPIC='{0}-pairs') AS
  SELECT a.k, a.x AS left_x, b.x AS right_x FROM s a JOIN s b WITHIN 1 HOUR ON a.x = b.x;
CREATE STREAM placed WITH (KAFKA_TOPIC='{0}-placed') AS
  SELECT s.k, s.x AS x, c.city AS city FROM s JOIN cities c ON s.k = c.k;
"""
RECORDS, KEYS, PARTITIONS = 400, 7, 3
QUERIES = ("ctas_totals", "csas_lucky_ones", "csas_numbers", "csas_pairs", "csas_placed")


@dataclass
class Job(RunningJob):
    """One application with two executors."""

    def __post_init__(self) -> None:
        functions = self.home / "lucky.py"
        functions.write_text(FUNCTIONS)
        # Relative, as people give it; executors have a working folder of their own.
        given = os.path.relpath(functions)
        self.properties |= {"state.partitions": "3", "functions": given}
        (self.home / "job.sql").write_text(SQL.format(self.application_id))
        admin = Admin(self.client)
        admin.ensure_topic(f"{self.application_id}-in", PARTITIONS, -1, {})
        admin.ensure_topic(f"{self.application_id}-cities", 1, -1, {})

    def produce(self) -> None:
        producer = Producer(self.client)
        for n in range(KEYS):
            value = orjson.dumps({"city": f"city {n}"})
            producer.send(f"{self.application_id}-cities", b"k%d" % n, value, timestamp_ms=1)
        for x in range(RECORDS):
            text = "many" if x % 10 == 0 else str(x % 100)
            value = orjson.dumps({"x": x, "t": text})
            topic, key = f"{self.application_id}-in", b"k%d" % (x % KEYS)
            producer.send(topic, key, value, timestamp_ms=1_000 + x)
        producer.send(f"{self.application_id}-in", b"bad", b"no JSON", timestamp_ms=2_000)
        producer.flush()

    def rows(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        pairs = self.records(f"{self.application_id}-{name}")
        return [((k or b"").decode(), orjson.loads(v or b"null")) for k, v in pairs]


def _lucky(x: int) -> bool:
    return x % 13 != 0 and x % 2 == 1


def _parsed(x: int) -> int | None:
    return None if x % 10 == 0 else x % 100


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def job(
    kafka: BrokerStatus, tmp_path_factory: pytest.TempPathFactory, events: Path
) -> Iterator[Job]:
    """It has run until it was caught up."""
    home = tmp_path_factory.mktemp("expressions")
    made = Job(home, {"bootstrap.servers": kafka.bootstrap_servers}, "expressions")
    made.produce()
    settings = {"enabled": "true", "compress": "false", "dir": f"file://{events}"}
    (home / "conf").mkdir()
    lines = [f"spark.eventLog.{name} {value}\n" for name, value in settings.items()]
    (home / "conf" / "spark-defaults.conf").write_text("".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(home / "conf"))
        ended = made.finish()
    assert ended.returncode == 0, ended.stderr
    yield made
    made.stop()


def test_a_users_function_filters_a_table_and_what_raises_does_not_pass(job: Job) -> None:
    counts, totals = Counter[str](), Counter[str]()
    for x in filter(_lucky, range(RECORDS)):
        counts[f"k{x % KEYS}"] += 1
        totals[f"k{x % KEYS}"] += x
    assert dict(job.rows("totals")) == {k: {"N": n, "TOTAL": totals[k]} for k, n in counts.items()}


def test_a_users_function_filters_a_stream(job: Job) -> None:
    found = sorted((row["X"], key) for key, row in job.rows("lucky"))
    assert found == [(x, f"k{x % KEYS}") for x in filter(_lucky, range(RECORDS))]


def test_a_condition_that_fails_for_a_row_drops_that_row_alone(job: Job) -> None:
    passing = [x for x in range(RECORDS) if (_parsed(x) or 0) >= 50]
    found = sorted((row["X"], row["N"]) for _, row in job.rows("numbers"))
    assert found == [(x, _parsed(x)) for x in passing]
    most = {f"K{n}": max(_parsed(x) or 0 for x in passing if x % KEYS == n) for n in range(KEYS)}
    assert {k: row["MOST"] for k, row in dict(job.rows("doubled")).items()} == {
        k: 2 * n for k, n in most.items()
    }


def test_a_self_join_meets_each_record_once(job: Job) -> None:
    found = [
        (int.from_bytes(key or b"", "big"), orjson.loads(value or b"")["RIGHT_X"])
        for key, value in job.records(f"{job.application_id}-pairs")
    ]
    assert sorted(found) == [(x, x) for x in range(RECORDS)]


def test_a_broadcast_table_is_met_wherever_the_stream_is_read(job: Job) -> None:
    found = sorted((row["X"], key, row["CITY"]) for key, row in job.rows("placed"))
    assert found == [(x, f"k{x % KEYS}", f"city {x % KEYS}") for x in range(RECORDS)]


def test_each_query_sets_a_bad_record_aside_once(job: Job) -> None:
    letters = list(job.chunks(dead_letter_topic(job.application_id)))
    values = [value for chunk in letters for value in chunk.values]
    assert values == [b"no JSON"] * 6, "one of each query"


@pytest.mark.usefixtures("job")
def test_sparks_event_log_tells_batches_with_queries_and_records(events: Path) -> None:
    logged = [
        json.loads(line)
        for file in events.rglob("*") if file.is_file() and not file.name.startswith(".")
        for line in file.read_text().splitlines() if line.startswith("{")
    ]  # fmt: skip
    jobs = [event for event in logged if event["Event"] == "SparkListenerJobStart"]
    told = Counter(each["Properties"].get("spark.job.description") for each in jobs)
    for query in QUERIES:
        if query != "csas_placed":
            assert told[f"{query}: batch 0, {RECORDS + 1} records"] == 1
    assert told[f"csas_placed: batch 0, {RECORDS + 1 + KEYS} records"] == 1
    names = {stage["Stage Name"] for each in jobs for stage in each["Stage Infos"]}
    assert {"ask the executors for their stores", "open the stores of ctas_totals"} <= names
    stages = {
        each["Properties"].get("spark.job.description"): {
            stage["Stage Name"] for stage in each["Stage Infos"]
        }
        for each in jobs
    }
    assert stages[f"ctas_totals: batch 0, {RECORDS + 1} records"] == {
        "read and pack expressions-in", "keep the state of ctas_totals",
    }  # fmt: skip
    assert stages[f"csas_lucky_ones: batch 0, {RECORDS + 1} records"] == {
        "read expressions-in and write expressions-lucky"
    }
