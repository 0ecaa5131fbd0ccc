"""Ctrl-C while Spark starts ends the command and everything that it has started."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from holdfast.local.broker import BrokerStatus
from tests.support.running_job import RunningJob

pytestmark = pytest.mark.timeout(300)
SQL = """
CREATE STREAM s (k STRING, v INT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t WITH (KAFKA_TOPIC='{topic}-t') AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""


def _living(session: int) -> list[str]:
    """The processes of a session that have not ended."""
    found = []
    for process in psutil.process_iter(["status", "name"]):
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.name())
        except (OSError, psutil.Error):
            continue
    return found


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
        while "java" not in _living(job.process.pid):
            assert job.process.poll() is None, job.log()
            time.sleep(0.05)
        time.sleep(1)
        os.killpg(job.process.pid, number)
        assert job.process.wait(30) == 128 + number, job.log()
        assert _living(job.process.pid) == []
        assert "Traceback" not in job.log_text()
        assert job.log_text().endswith("\nStopped.\n")
    finally:
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)
