"""Savepoints of a real job whose queries read each other, and another job that begins with one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.local.broker import BrokerStatus
from holdfast.state.snapshots.savepoints import Savepoint, SavepointPlace
from holdfast.types.status import JobStatus
from tests.support.jobs.chained_job import ChainedJob, Events

pytestmark = pytest.mark.timeout(900)

ROUND = 4_000


class Bench:
    """Jobs over one input, and the folder of their savepoints."""

    def __init__(self, client: dict[str, str], name: str, folder: Path) -> None:
        self.client = client
        self.name = name
        self.folder = folder
        self.uri = str(folder / "place")
        self.events = Events(client, f"{name}-in")
        self.jobs: list[ChainedJob] = []

    def job(self, suffix: str, **properties: str) -> ChainedJob:
        named = {name.replace("__", "."): value for name, value in properties.items()}
        made = ChainedJob(
            self.folder / suffix, self.client, f"{self.name}-{suffix}", self.events,
            properties={"snapshot.uri": self.uri, "snapshot.interval.ms": "86400000", **named},
        )  # fmt: skip
        self.jobs.append(made)
        return made

    def savepoint(self, verb: str, job: ChainedJob, name: str, *more: str) -> int:
        servers = self.client["bootstrap.servers"]
        sets = ("--set", f"bootstrap.servers={servers}", "--set", f"snapshot.uri={self.uri}")
        return main(["savepoint", verb, job.application_id, name, *sets, *more])

    def read(self, job: ChainedJob, name: str) -> Savepoint:
        return SavepointPlace(self.uri, job.application_id).read(name)


@pytest.fixture
def bench(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Bench]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    made = Bench(client, kafka_topic_name("sp")[-40:], tmp_path)
    yield made
    for job in made.jobs:
        job.stop()


def _records(status: JobStatus) -> int:
    return status.queries["ctas_totals"].records_total


def _offsets(saved: Savepoint, query_id: str) -> dict[int, int]:
    query = saved.query(query_id)
    assert query is not None
    return {p: at for source in query.sources for p, at in source.offsets.items()}


def test_a_job_goes_on_from_the_savepoint_of_another_one(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    events, old = bench.events, bench.job("old")
    events.produce(ROUND)
    old.start()
    old.until(lambda s: _records(s) > 0, "the first batch")
    with bench.events.coming_in():
        began = time.monotonic()
        assert bench.savepoint("create", old, "s1") == 0, capsys.readouterr()
        assert time.monotonic() - began < 60
        before = old.until(lambda s: _records(s) > ROUND + 2_000, "batches after the savepoint")
        saved = bench.read(old, "s1")
        taken = {p: at for s in saved.queries[0].sources for p, at in s.offsets.items()}
        assert 0 < sum(taken.values()) < _records(before), "it was taken in the middle"

        begins = f"{old.application_id}/s1"
        new = bench.job("new", state__partitions="6", executors="1", savepoint__from=begins)
        new.start()
        new.until(lambda s: _records(s) > sum(taken.values()), "batches of the new job")
    events.touch_all()
    earlier = events.amounts_before(_offsets(saved, "csas_large"))
    before_it = sum(amount > 90 for amount in earlier)
    for job, large in ((old, events.large()), (new, events.large() - before_it)):
        job.until_right(large)
        assert job.stop() == 0
        assert job.count("large") == large, "none came twice"
