"""A job goes on while its changelog is cleaned under it, and its table stays exact."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.types.ids import changelog_topic
from tests.integration.compaction.applying import own_settings
from tests.support.jobs.running_job import WAIT_S
from tests.support.jobs.totals_job import TotalsJob

pytestmark = pytest.mark.timeout(900)
SENT = 16_000  # eight batches
ROUND = 100


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[TotalsJob]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    made = TotalsJob(
        tmp_path, client, kafka_topic_name("app")[-40:], kafka_topic_name("in")[-40:], 2_000
    )
    yield made
    made.stop()


class _Load:
    """Sends to the job's topic, a little at a time, until it is told to end."""

    def __init__(self, job: TotalsJob) -> None:
        self._job = job
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.rounds = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._end.wait(1.0):
            self._job.produce(ROUND, seed=1_000 + self.rounds)
            self.rounds += 1


def _records(job: TotalsJob) -> int:
    status = job.status()
    return status.queries["ctas_totals"].records_total if status is not None else 0


def _compaction(job: TotalsJob, *words: str) -> str:
    asked = [sys.executable, "-m", "holdfast.cli.main", "compaction", *words]
    asked += ["--home", str(job.home)]
    if words[0] != "plan":  # which asks nobody
        asked += ["--set", f"bootstrap.servers={job.client['bootstrap.servers']}"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def test_a_running_job_keeps_its_table_exact_while_its_changelog_is_cleaned(job: TotalsJob) -> None:
    job.produce(SENT, seed=1)
    job.start()
    job.until(lambda s: _records(job) == SENT, "the records before the apply")
    changelog = changelog_topic(job.application_id, "ctas_totals")
    before = own_settings(job.client, changelog)
    with _Load(job):
        survey = json.loads(_compaction(job, "survey", job.application_id, "--json"))
        assert survey["topics"][0]["partitions"][0]["live_keys"]["how"] == "counted"
        plan = json.loads(_compaction(job, "plan", "--policy", "min.gain.bytes=65536", "--json"))
        seen = _records(job)
        done = json.loads(_compaction(job, "apply", "--hash", plan["hash"], "--json"))
        committed = _records(job) - seen
        job.until(lambda s: _records(job) >= seen + committed + ROUND, "a commit after it")
        verified = json.loads(_compaction(job, "verify", "--json"))
    assert committed > 0, "it committed while its changelog was cleaned"
    (topic,) = done["topics"]
    assert (topic["outcome"], topic["exact"]) == ("cleaned", True)
    (result,) = verified["topics"]
    assert result["table"], "its job tells whose changelog it is"
    assert result["sample_after"]["records"] < result["sample_before"]["records"] / 2
    stays = {c["name"]: c["after"] for t in plan["topics"] for c in t["changes"]}
    assert own_settings(job.client, changelog) == before | stays

    sent = sum(job.count.values())
    job.until(lambda s: _records(job) == sent and job.lag() == 0, "the rest")
    assert job.process is not None
    assert job.process.poll() is None
    job.check_exact()
    judged = subprocess.run(
        [sys.executable, "-m", "holdfast.cli.main", "verify", *job.command()[4:]],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert "verdict: valid" in judged.stdout
