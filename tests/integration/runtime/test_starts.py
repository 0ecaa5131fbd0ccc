"""Starts that are interrupted, and starts of a job that runs already."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.types.status import JobState
from tests.support.jobs.running_job import RunningJob

pytestmark = pytest.mark.timeout(300)
SQL = """
CREATE STREAM s (k STRING, v INT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t WITH (KAFKA_TOPIC='{topic}-t') AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""


def _living(session: int) -> list[str]:
    """The processes of a session that have not ended, and that no SIGKILL waits for either."""
    found = []
    for process in psutil.process_iter(["name"]):
        try:
            # One that ends has no command line any more.
            lives = os.getsid(process.pid) == session and process.cmdline()
            if lives and not _is_killed(process.pid):
                found.append(process.name())
        except (OSError, psutil.Error):
            continue
    return found


def _is_killed(pid: int) -> bool:
    """Whether a SIGKILL waits for the process, which a busy machine lets run only later."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    pending = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (signal.SIGKILL - 1) & 1 for mask in pending)


def _spark_starts(driver: int) -> bool:
    """Whether the driver's JVM is there, for whose answer PySpark waits.

    A command asks `java` for its version long before, when a signal still ends Python as it comes.
    """
    with suppress(psutil.Error):
        children = psutil.Process(driver).children(recursive=True)
        return any("org.apache.spark.deploy.SparkSubmit" in p.cmdline() for p in children)
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_spark_starts_ends_everything_at_once(
    kafka: BrokerStatus,
    kafka_topic_name: Callable[[str], str],
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    topic = kafka_topic_name("in")
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    job = RunningJob(tmp_path, client, "app-" + topic[-30:])
    (tmp_path / "job.sql").write_text(SQL.format(topic=topic))
    job.start()
    assert job.process is not None
    try:
        while not _spark_starts(job.process.pid):
            assert job.process.poll() is None, job.log()
            time.sleep(0.05)
        os.killpg(job.process.pid, number)
        # A signal that is lost ends nothing, ever; a busy machine takes its time.
        assert job.process.wait(120) == 128 + number, job.log()
        time.sleep(0.5)  # for what is between a SIGKILL and its end; Spark starts for longer
        assert _living(job.process.pid) == []
        assert "Traceback" not in job.log_text()
        assert job.log_text().endswith("\nStopped.\n")
    finally:
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)


def test_a_start_that_is_refused_leaves_no_java(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Java starts while Python still asks Kafka; here it is refused for a topic that is missing."""
    topic = kafka_topic_name("in")
    job = RunningJob(tmp_path, {"bootstrap.servers": kafka.bootstrap_servers}, "app-" + topic[-30:])
    (tmp_path / "job.sql").write_text(SQL.format(topic=topic).replace(", PARTITIONS=1", ""))
    job.start()
    assert job.process is not None
    seen = False
    while job.process.poll() is None:
        seen |= _spark_starts(job.process.pid)
        time.sleep(0.05)
    assert seen, "no Java was started"
    assert job.process.returncode == 2, job.log()
    assert topic in job.log_text()
    deadline = time.monotonic() + 30
    while left := _living(job.process.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_a_second_run_of_a_job_in_one_home_is_refused_and_sigterm_to_all_ends_the_first_in_order(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = kafka_topic_name("in")
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    job = RunningJob(tmp_path, client, "app-" + topic[-30:], properties={"executors": "1"})
    (tmp_path / "job.sql").write_text(SQL.format(topic=topic))
    job.start()
    try:
        first = job.until(lambda s: s.state is JobState.RUNNING, "the start")
        second = job.finish()
        assert second.returncode == 2
        assert f"runs already in {tmp_path} (pid {first.pid})" in second.stderr
        assert job.process is not None
        os.killpg(job.process.pid, signal.SIGTERM)  # as systemd and `timeout` do
        assert job.stop() == 0
        assert "Exception" not in job.log_text()
        assert "Traceback" not in job.log_text()
        assert job.finish().returncode == 0
    finally:
        job.stop()
