"""Standbys of a real job: an executor is killed and its volume is lost, and another takes over."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.local.broker import BrokerStatus
from holdfast.types.status import ExecutorStatus, JobStatus
from tests.support.jobs.totals_job import TotalsJob, partitions_of, records_of

pytestmark = pytest.mark.timeout(900)

ROUND = 3_000
_WAIT_MS = 60_000  # of the placement; a takeover must not need it


@pytest.fixture
def job(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[TotalsJob]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    names = kafka_topic_name("app")[-40:], kafka_topic_name("in")[-40:]
    made = TotalsJob(tmp_path, client, *names, customers=20_000)
    made.properties |= {
        "standby.replicas": "1",
        "placement.wait.ms": str(_WAIT_MS),
        # So few that only a standby that follows is warm.
        "acceptable.recovery.lag": "10",
        "max.offsets.per.trigger": "10000",
    }
    yield made
    made.stop()


def _all_follow(status: JobStatus) -> bool:
    found = partitions_of(status)
    return len(found) == 4 and all(
        len(p.standbys) == 1 and p.standbys[0].lag == 0 and p.standbys[0].position >= p.position
        for p in found
    )


def _owned_by(status: JobStatus, volume: str) -> list[int]:
    return [p.partition for p in partitions_of(status) if p.volume == volume]


def _lose(job: TotalsJob, victim: ExecutorStatus) -> None:
    """Kills an executor and removes its volume; its replacement has an empty one."""
    job.kill_executor(victim)
    shutil.rmtree(job.home / "state" / victim.volume, ignore_errors=True)


def test_a_standby_takes_over_at_once_and_the_way_back_is_warmed_first(job: TotalsJob) -> None:
    sent = ROUND * 10
    job.produce(sent, seed=1)
    job.start()
    before = job.until(lambda s: records_of(s) == sent and _all_follow(s), "following")
    assert {len(_owned_by(before, v)) for v in "01"} == {2}
    victim = before.executors[0]
    lost = _owned_by(before, victim.volume)

    began = time.monotonic()
    _lose(job, victim)
    job.produce(ROUND, seed=2)
    sent += ROUND
    after = job.until(lambda s: records_of(s) == sent, "the takeover")
    assert time.monotonic() - began < _WAIT_MS / 2_000
    moved = [p for p in partitions_of(after) if p.partition in lost]
    assert {p.volume for p in moved} == {before.executors[1].volume}
    assert all(p.restore_records < 10 for p in moved), "a standby has next to nothing to restore"

    job.until(_all_follow, "a new standby on the empty volume")
    job.produce(ROUND, seed=3)
    sent += ROUND
    back = job.until(
        lambda s: records_of(s) == sent and {len(_owned_by(s, v)) for v in "01"} == {2},
        "level shares",
    )
    assert all(p.restore_records < 10 for p in partitions_of(back)), "no cold restore in a batch"
    assert job.stop() == 0
    job.check_exact()
