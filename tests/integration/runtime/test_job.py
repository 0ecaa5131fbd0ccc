"""Whole jobs as a user runs them: `holdfast run` in its own processes, killed on the way."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.types.ids import changelog_topic, dead_letter_topic
from holdfast.types.status import JobState, JobStatus, QueryState
from tests.support.jobs.running_job import WAIT_S
from tests.support.jobs.totals_job import TotalsJob

ONE_EXECUTOR = ("--set", "executors=1")  # a job starts for three quarters of the CPU time
GARBAGE = [b"not json", b'{"customer": "x", "amount": "many", "ts": 1}', b"\xff\xfe"]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[TotalsJob]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    made = TotalsJob(tmp_path, client, kafka_topic_name("app")[-40:], kafka_topic_name("in")[-40:])
    yield made
    made.stop()


def _records(status: JobStatus) -> int:
    return status.queries["ctas_totals"].records_total


def test_what_can_be_lost_and_what_cannot(job: TotalsJob) -> None:
    """One table's life; a start of Spark takes longer than all that it does here."""
    job.produce(3_000, seed=3)
    producer = Producer(job.client)
    for garbage in GARBAGE:
        producer.send(job.topic, b"bad", garbage)
    producer.flush()
    first = job.finish()
    assert first.returncode == 0, first.stderr
    letters = [v for _, v in job.records(dead_letter_topic(job.application_id))]
    assert Counter(letters) == Counter(2 * GARBAGE), "each query keeps each bad record once"
    _lose_volumes(job)
    _lose_changelog(job)


def _lose_volumes(job: TotalsJob) -> None:
    """A job has no other files: its progress is in Kafka."""
    files = {path.name for path in (job.home / "run" / job.application_id).iterdir()}
    assert "checkpoint" not in files
    shutil.rmtree(job.home / "run")
    shutil.rmtree(job.home / "state")
    job.produce(3_000, seed=4)
    ended = job.finish()
    assert ended.returncode == 0, ended.stderr
    job.check_exact()
    status = job.status()
    assert status is not None
    assert status.state is JobState.STOPPED
    partitions = status.queries["ctas_totals"].state_partitions
    assert sum(p.rows for p in partitions) == len(job.count)
    assert sum(p.restore_records for p in partitions) >= len(job.count)
    assert job.lag() == 0


def _lose_changelog(job: TotalsJob) -> None:
    shutil.rmtree(job.home / "state")
    Admin(job.client).delete_topic(changelog_topic(job.application_id, "ctas_totals"))
    refused = job.finish(*ONE_EXECUTOR)
    assert refused.returncode == 2
    assert "changelog holds no commit marker" in refused.stderr
    assert "on.changelog.loss=rebuild" in refused.stderr
    assert "Traceback" not in refused.stderr
    rebuilt = job.finish(*ONE_EXECUTOR, "--set", "on.changelog.loss=rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr


def test_a_record_that_cannot_be_decoded_may_stop_the_job(job: TotalsJob) -> None:
    producer = Producer(job.client)
    producer.send(job.topic, b"bad", GARBAGE[0])
    producer.flush()
    failing = job.finish(*ONE_EXECUTOR, "--set", "deserialization.error=fail")
    assert failing.returncode == 2
    assert "partition" in failing.stderr
    assert "Traceback" not in failing.stderr


def test_orders_reach_a_running_job_and_outlive_its_driver(
    job: TotalsJob, capsys: pytest.CaptureFixture[str]
) -> None:
    """One query pauses while the other goes on, over a SIGKILL of the driver."""
    job.properties["executors"] = "1"
    job.produce(2_000, seed=21)
    job.start()
    job.until(lambda s: _records(s) == 2_000, "the first records")
    copied = job.finish("--set", "application.id=copied")
    assert copied.returncode == 2
    assert f"belongs to ctas_totals of the application {job.application_id} " in copied.stderr
    assert "ctas_totals" in _order(job, capsys, "pause", "CTAS_TOTALS_7")
    job.produce(2_000, seed=22)
    paused = job.until(lambda s: _others(s) >= 4_000, "the records of the query that goes on")
    assert paused.queries["ctas_totals"].state is QueryState.PAUSED
    assert _records(paused) == 2_000
    assert job.process is not None
    os.killpg(job.process.pid, signal.SIGKILL)
    job.process.wait()
    job.produce(2_000, seed=23)
    job.start()
    after = job.until(lambda s: s.pid != paused.pid and _others(s) >= 2_000, "the next records")
    assert after.queries["ctas_totals"].state is QueryState.PAUSED
    assert "csas_large" in _order(job, capsys, "terminate", "csas_large")
    assert "ctas_totals" in _order(job, capsys, "resume", "ctas_totals")
    job.until(lambda s: _records(s) == 6_000, "all records of the query that was paused")
    job.check_exact()
    job.produce(10, seed=24)
    ended = job.until(lambda s: _records(s) == 6_010, "what comes after the other one's end")
    assert ended.queries["csas_large"].state is QueryState.TERMINATED
    assert job.owned() == {job.totals_topic}
    assert "csas_large" in _order(job, capsys, "resume", "csas_large", "--restore")
    job.until(lambda _: job.lag() == 0, "the query that was restored")
    assert job.owned() == {job.totals_topic, job.large_topic}
    job.check_exact()


def _others(status: JobStatus) -> int:
    return status.queries["csas_large"].records_total


def _order(job: TotalsJob, capsys: pytest.CaptureFixture[str], verb: str, *query: str) -> str:
    servers = f"bootstrap.servers={job.client['bootstrap.servers']}"
    named = ("--application-id", job.application_id)
    assert main([verb, *query, *named, "--set", servers, "--home", str(job.home)]) == 0, job.log()
    return capsys.readouterr().out


def test_the_same_driver_goes_on_after_a_broker_was_silent(
    job: TotalsJob, kafka: BrokerStatus
) -> None:
    """Longer than any request may take, so that streams end and are started again."""
    job.produce(2_000, seed=11)
    job.start()
    job.until(lambda s: _records(s) == 2_000, "the first records")
    assert job.process is not None
    os.kill(kafka.pid, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + WAIT_S
        while "its stream starts again" not in job.log():
            assert time.monotonic() < deadline, job.log()
            assert job.process.poll() is None, job.log()
            time.sleep(0.5)
    finally:
        os.kill(kafka.pid, signal.SIGCONT)
    job.produce(2_000, seed=12)
    job.until(lambda s: _records(s) == 4_000 and job.lag() == 0, "the records after the silence")
    assert job.process.poll() is None
    job.check_exact()
