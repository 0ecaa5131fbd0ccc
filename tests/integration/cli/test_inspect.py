"""`holdfast inspect` and `verify` on a real broker, without a running job."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.look import inspect, verify
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.idempotent_producer import Producer
from holdfast.types.ids import changelog_topic
from holdfast.types.status import JobStatus, PartitionStatus, QueryStatus, status_path

APPLICATION = "inspected"
HOUR = 3_600_000


class Job:
    """A sink, a changelog and a status file, as a job that stopped leaves them."""

    def __init__(self, kafka: BrokerStatus, home: Path, sink: str) -> None:
        self.servers, self.home, self.sink = kafka.bootstrap_servers, home, sink
        self.client = {"bootstrap.servers": self.servers}
        self.query = f"ctas_{sink.lower()}"
        self.changelog = changelog_topic(APPLICATION, self.query)
        self.admin = Admin(self.client)
        for topic in (sink, self.changelog):
            self.admin.ensure_topic(topic, 1)
        self.producer = Producer(self.client)
        self.sql = home / f"{APPLICATION}.sql"
        self.sql.write_text(
            f"CREATE STREAM s (title STRING) WITH (KAFKA_TOPIC='{sink}-in', VALUE_FORMAT='JSON',"
            f" PARTITIONS=1); CREATE TABLE `{sink}` WITH (KAFKA_TOPIC='{sink}') AS SELECT title,"
            " COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY title;"
        )

    def emit(self, title: str, start_ms: int, count: int | None) -> None:
        key = title.encode() + struct.pack(">q", start_ms)
        value = None if count is None else json.dumps({"N": count}).encode()
        self.producer.send(self.sink, key, value)
        self.producer.send(self.changelog, b"\x01" + key, b"row")
        self.producer.flush()

    def tell(self, position: int) -> None:
        """The status that its driver wrote last."""
        partition = PartitionStatus(0, "1", "0", rows=2, bytes=2048, position=position)
        query = QueryStatus(self.sink, self.sink, self.changelog, 3, 7, 0, 0, (partition,))
        status = JobStatus(APPLICATION, queries={self.query: query})
        status.write(status_path(self.home, APPLICATION))

    def run(self, *arguments: str) -> Result:
        options = ["--home", str(self.home), "--set", f"bootstrap.servers={self.servers}"]
        return CliRunner().invoke(inspect.command, [*arguments, *options])


@pytest.fixture
def job(
    kafka: BrokerStatus, tmp_path: Path, kafka_topic_name: Callable[[str], str]
) -> Iterator[Job]:
    made = Job(kafka, tmp_path, kafka_topic_name("sold"))
    made.emit("Aliens", 0, 1)
    made.emit("Aliens", HOUR, 1)
    made.emit("Aliens", 0, 2)
    made.emit("Shrek", 0, 1)
    made.emit("Shrek", 0, None)
    yield made
    made.producer.close()


def test_a_table_is_its_sink_folded_with_the_state_last_told(job: Job) -> None:
    job.tell(position=3)
    shown = json.loads(job.run(job.sink, str(job.sql), "--json").stdout)
    table = shown["tables"][0]
    assert table["rows"] == [
        {"TITLE": "Aliens", "window start": 0, "N": 2},
        {"TITLE": "Aliens", "window start": HOUR, "N": 1},
    ]
    partition = table["state_partitions"][0]
    assert (partition["changelog_end"], partition["lag"], partition["bytes"]) == (5, 2, 2048)
    assert shown["running"] is False


def test_without_its_file_the_keys_are_guessed(job: Job) -> None:
    job.tell(position=5)
    shown = json.loads(job.run(job.sink, "--application-id", APPLICATION, "--json").stdout)
    row = shown["tables"][0]["rows"][1]
    assert row == {"key": "Aliens", "window start": HOUR, "N": 1}


def test_without_a_status_kafka_tells_what_it_can(job: Job) -> None:
    result = job.run(job.sink, str(job.sql))
    assert "from Kafka alone" in result.stdout
    assert "1970-01-01T01:00:00Z" in result.stdout


def test_without_a_table_all_are_listed(job: Job) -> None:
    job.tell(position=5)
    result = job.run(str(job.sql), "--limit", "1")
    assert "driver is not running" in result.stdout
    assert "2.0 KiB" in result.stdout
    assert "1970" not in result.stdout


def test_an_unknown_table_is_refused_with_the_nearest(job: Job) -> None:
    result = job.run(job.sink[:-1] + "X", str(job.sql))
    assert result.exception is not None
    assert f"did you mean {job.sink}" in str(result.exception)


def test_verify_says_that_the_job_has_not_caught_up(job: Job) -> None:
    """It never ran: its input holds a record nobody has read."""
    topic = f"{job.sink}-in"
    job.admin.ensure_topic(topic, 1)
    job.producer.send(topic, None, b'{"title": "Aliens"}')
    job.producer.flush()
    options = ["--home", str(job.home), "--set", f"bootstrap.servers={job.servers}"]
    junit = job.home / "verdict.xml"
    asked = [str(job.sql), "--timeout", "0", "--json", "--junit", str(junit), *options]
    result = CliRunner().invoke(verify.command, asked)
    assert result.exit_code == 3
    verdict = json.loads(result.stdout)
    assert verdict["verdict"] == "unknown"
    assert "0 of 1 input offsets" in verdict["tables"][0]["findings"][0]["fact"]
    assert 'errors="1"' in junit.read_text()
