"""Snapshots of a real job in a real S3 server: volumes lost, files damaged, the server away."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from holdfast.local.broker import BrokerStatus
from holdfast.types.status import JobStatus, PartitionStatus
from tests.support.jobs.running_job import WAIT_S
from tests.support.jobs.totals_job import TotalsJob, partitions_of, records_of
from tests.support.servers.s3_server import S3Server

pytestmark = pytest.mark.timeout(900)

ROUND = 3_000
_BUCKET = "snapshots-of-jobs"


@pytest.fixture
def job(
    kafka: BrokerStatus,
    kafka_topic_name: Callable[[str], str],
    tmp_path: Path,
    s3: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[TotalsJob]:
    s3.make_bucket(_BUCKET)
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    names = kafka_topic_name("app")[-40:], kafka_topic_name("in")[-40:]
    made = TotalsJob(tmp_path, client, *names, customers=5_000)
    made.properties |= {
        "snapshot.uri": s3.uri(_BUCKET, "jobs"),
        "snapshot.interval.ms": "1000",
        "placement.wait.ms": "5000",
        "acceptable.recovery.lag": "10",
        "max.offsets.per.trigger": "10000",
    }
    yield made
    made.stop()


def _lose_volumes(job: TotalsJob, status: JobStatus) -> None:
    """Kills every executor and removes its volume."""
    for victim in status.executors:
        job.kill_executor(victim)
        shutil.rmtree(job.home / "state" / victim.volume, ignore_errors=True)


def _all_taken(status: JobStatus) -> bool:
    """Whether every state partition has a snapshot of its last batch but one, or a later one."""
    found = partitions_of(status)
    return len(found) == 4 and all(
        p.snapshot is not None and not p.snapshot.error and p.snapshot.offset > 0 for p in found
    )


def _damage_all(s3: S3Server, partitions: tuple[PartitionStatus, ...]) -> None:
    """Damages every file, once every state partition has its last snapshot.

    A later one would upload those anew that have another size.
    """
    files, folder = fs.FileSystem.from_uri(s3.uri(_BUCKET, "jobs"))
    wanted = {(p.partition, p.position) for p in partitions}
    deadline = time.monotonic() + WAIT_S
    while True:
        found = files.get_file_info(fs.FileSelector(folder, recursive=True))
        paths = [Path(info.path) for info in found if info.is_file]
        taken = {
            (int(path.parents[1].name), int(path.name.partition(".")[0]))
            for path in paths if path.parent.name == "manifests"
        }  # fmt: skip
        if wanted <= taken:
            break
        assert time.monotonic() < deadline, (wanted, taken)
        time.sleep(0.2)
    for path in paths:
        if path.parent.name == "files":
            with files.open_output_stream(str(path)) as stream:
                stream.write(b"damaged")


class Story:
    """A job and the number of records it was given."""

    def __init__(self, job: TotalsJob) -> None:
        self.job = job
        self.sent = 0

    def round(self, records: int = ROUND) -> None:
        self.job.produce(records, seed=self.sent)
        self.sent += records

    def done(self, what: str) -> JobStatus:
        return self.job.until(lambda s: records_of(s) == self.sent, what)


def test_lost_volumes_come_back_from_snapshots_or_without_them(
    job: TotalsJob, s3: S3Server
) -> None:
    story = Story(job)
    story.round(ROUND * 10)
    job.start()
    story.done("the first records")
    story.round()  # a batch whose report tells of the snapshots before it
    before = job.until(_all_taken, "snapshots of all state partitions")
    before = story.done("the second records")

    _lose_volumes(job, before)
    story.round()
    after = story.done("the way back from the snapshots")
    assert all(0 < p.restore_records < ROUND * 4 for p in partitions_of(after)), "only a tail"
    assert job.log_text().count(": a snapshot of ") == 4

    _damage_all(s3, partitions_of(after))
    _lose_volumes(job, after)
    story.round()
    story.done("the way back without snapshots")
    assert job.log_text().count(": no snapshot that is good; the store is empty") == 4

    s3.stop()
    story.round()
    alone = story.done("batches while the server is away")
    _lose_volumes(job, alone)
    story.round()
    story.done("the way back while the server is away")
    assert job.log_text().count("the snapshots are out of reach") == 4
    s3.start()
    assert job.stop() == 0
    job.check_exact()
