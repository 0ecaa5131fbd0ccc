"""An executor is killed in the middle of a batch of a query without state.

Meanwhile the collector of the job's traces is away, which holds nothing up.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from holdfast.deploy.local.processes import signal_all, tree_of
from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from tests.support.jobs.running_job import WAIT_S, RunningJob

# The first call in each process tells its pid and waits until the test has killed one of them.
FUNCTIONS = """
import os, pathlib, time
from holdfast import function

FOLDER = pathlib.Path({folder!r})

@function("SLOW", args=["BIGINT"], returns="BIGINT")
def slow(x):
    told = FOLDER / f"worker-{{os.getpid()}}"
    if not told.exists():
        told.touch()
        while not (FOLDER / "go").exists():
            time.sleep(0.05)
    return x * 2
"""
SQL = """
CREATE STREAM s (k STRING KEY, x BIGINT) WITH (KAFKA_TOPIC='{0}-in', VALUE_FORMAT='JSON');
CREATE STREAM o WITH (KAFKA_TOPIC='{0}-out') AS SELECT k, SLOW(x) AS y FROM s WHERE SLOW(x) >= 0;
"""
RECORDS = 3_000


@dataclass
class Job(RunningJob):
    """One application with two executors, each of which reads in its own worker."""

    def __post_init__(self) -> None:
        functions = self.home / "slow.py"
        functions.write_text(FUNCTIONS.format(folder=str(self.home)))
        away = "http://127.0.0.1:1"
        self.properties |= {"functions": str(functions), "tracing.endpoint": away}
        (self.home / "job.sql").write_text(SQL.format(self.application_id))
        Admin(self.client).ensure_topic(f"{self.application_id}-in", 4, -1, {})
        producer = Producer(self.client)
        for x in range(RECORDS):
            value = orjson.dumps({"x": x})
            producer.send(f"{self.application_id}-in", b"k%d" % x, value)
        producer.flush()

    def workers(self) -> set[int]:
        """The pids of Python workers that have begun to compute."""
        return {int(path.name.partition("-")[2]) for path in self.home.glob("worker-*")}

    def written(self) -> Counter[int]:
        chunks = self.chunks(f"{self.application_id}-out")
        return Counter(orjson.loads(v)["Y"] for c in chunks for v in c.values if v is not None)


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Job]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    made = Job(tmp_path, client, kafka_topic_name("killed")[-40:])
    yield made
    made.stop()


def test_every_result_is_there_once(job: Job) -> None:
    job.start()
    deadline = time.monotonic() + WAIT_S
    while len(job.workers()) < 2:
        assert time.monotonic() < deadline, job.log()
        time.sleep(0.1)
    status = job.status()
    assert status is not None
    victim = next(e for e in status.executors if e.worker_pid in job.workers())
    executor, *workers = tree_of(victim.jvm_pid)
    assert victim.jvm_pid in signal_all([*workers, executor], signal.SIGKILL)
    (job.home / "go").touch()
    job.until(lambda s: s.queries["csas_o"].records_total >= RECORDS, "the whole batch")
    job.until(lambda _: sum(job.written().values()) >= RECORDS, "all results")
    assert job.written() == dict.fromkeys(range(0, 2 * RECORDS, 2), 1)
