"""Two drivers of one job on a real broker: neither takes back what the other has committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.errors import ChangelogLost, Fenced, OffsetOverlap
from holdfast.local.broker import BrokerStatus
from holdfast.runtime.queries.batches.levelling import pieces
from holdfast.runtime.queries.start import SourceState, start_point
from holdfast.state.volume import Volume, claim
from holdfast.tasks.plan import Batch, QueryPlan, TaskReport, Whereabouts
from holdfast.tasks.processors.aggregates.aggregate import AggregateProcessor
from holdfast.tasks.state_task import StateTask
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import PartitionReader
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import Planned
from tests.simulation.jobs import one_table as history

STATE_PARTITIONS = 2
P0, P1 = ("s", 0), ("s", 1)
INITIAL = SourceState({P0: 0, P1: 0}, {P0: 0, P1: 0}, {})


class Job:
    """State tasks of one driver; each state partition counts every source offset under one key."""

    def __init__(self, plan: QueryPlan, volume: Volume) -> None:
        self.plan = plan
        self.volume = volume
        self.tasks: dict[int, StateTask] = {}

    def open(self, partition: int) -> TaskReport:
        self.close(partition)
        task = StateTask(self.plan, partition, self.volume, Whereabouts("x", 0, 0, 0))
        self.tasks[partition] = task
        return task.open()

    def take(self, partition: int, batch: Batch) -> TaskReport:
        count = batch.source.records_max
        columns = {"__key": [b"k%d" % partition], "__n": [count], "__ts": [1], "p0_0": [count]}
        schema = AggregateProcessor(self.plan.query).schema
        return self.tasks[partition].process(batch, pa.table(columns, schema=schema))

    def close(self, partition: int) -> None:
        task = self.tasks.pop(partition, None)
        if task is not None:
            task.close()

    def settle(self, sources: SourceState) -> dict[Place, int]:
        """Runs a driver's start and returns the point from which it continues."""
        markers = [self.open(p).marker for p in range(STATE_PARTITIONS)]
        start = start_point("q", markers, sources, {}, rebuild=False)
        for level in start.levels:
            for source, watermark_ms in pieces(level, _AtOnce()):
                batch = Batch(start.batch_id - 1, source, watermark_ms=watermark_ms)
                for partition in sorted(level.state_partitions):
                    self.take(partition, batch)
        return start.offsets

    def counts(self) -> Counter[str]:
        """By key, as the sink says."""
        found: Counter[str] = Counter()
        topic = self.plan.query.sink.topic
        for partition, (start, end) in Admin(self.plan.settings.client()).bounds(topic).items():
            reader = PartitionReader(self.plan.settings.client(), topic, partition)
            for chunk in reader.read(start, end):
                for key, value in zip(chunk.keys, chunk.values, strict=True):
                    assert key is not None
                    assert value is not None
                    found[key.decode()] = int(value.decode().partition(":")[2].rstrip("}"))
            reader.close()
        return found


class _AtOnce:
    """Levels in one piece."""

    def plan(
        self, begin: Mapping[Place, int], target: Mapping[Place, int] | None = None
    ) -> Planned:
        return Planned(dict(target or begin))


def batch(start: dict[int, int], end: dict[int, int], batch_id: int = 0) -> Batch:
    return Batch(batch_id, OffsetRange.of("s", start, end))


@pytest.fixture
def plan(kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path) -> QueryPlan:
    application_id = kafka_topic_name("app")
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).ensure_topic(
        f"{application_id}-ctas_t-changelog", STATE_PARTITIONS, -1, {"cleanup.policy": "compact"}
    )
    made = history.plan_of(kafka.bootstrap_servers, application_id, tmp_path)
    state = replace(made.settings.state, partitions=STATE_PARTITIONS)
    return replace(made, settings=replace(made.settings, state=state))


@pytest.fixture
def jobs(plan: QueryPlan, tmp_path: Path) -> Iterator[tuple[Job, Job]]:
    both = tuple(Job(plan, claim(tmp_path / name, expected=1, wait_s=5.0)) for name in "ab")
    yield both  # type: ignore[misc]
    for job in both:
        for partition in range(STATE_PARTITIONS):
            job.close(partition)


def test_a_driver_that_slept_while_a_topic_partition_was_made_takes_nothing_back(
    jobs: tuple[Job, Job],
) -> None:
    a, b = jobs
    for partition in range(STATE_PARTITIONS):
        a.open(partition)
        a.take(partition, batch({0: 0}, {0: 100}))
    for partition in range(STATE_PARTITIONS):  # the topic has got another partition meanwhile
        b.open(partition)
        b.take(partition, batch({0: 100, 1: 0}, {0: 100, 1: 50}, 1))
    slept = batch({0: 100}, {0: 200}, 1)
    with pytest.raises(Fenced):
        a.take(0, slept)
    a.open(0)
    with pytest.raises(OffsetOverlap, match="s partition 1: not in the batch"):
        a.take(0, slept)
    assert a.settle(INITIAL) == {P0: 100, P1: 50}
    for partition in range(STATE_PARTITIONS):
        a.take(partition, batch({0: 100, 1: 50}, {0: 200, 1: 50}, 2))
    assert a.counts() == {"k0": 250, "k1": 250}


def test_state_partitions_that_two_drivers_left_apart_are_brought_level(
    jobs: tuple[Job, Job],
) -> None:
    a, b = jobs
    for partition in range(STATE_PARTITIONS):
        a.open(partition)
        a.take(partition, batch({0: 0, 1: 0}, {0: 100, 1: 100}))
    b.open(1)
    a.take(0, batch({0: 100, 1: 100}, {0: 160, 1: 100}, 1))
    b.take(1, batch({0: 100, 1: 100}, {0: 100, 1: 200}, 1))
    assert b.settle(INITIAL) == {P0: 160, P1: 200}
    assert b.counts() == {"k0": 360, "k1": 360}
    assert b.settle(INITIAL) == {P0: 160, P1: 200}, "once"


def test_one_emptied_changelog_partition_is_no_new_state_partition(
    jobs: tuple[Job, Job], plan: QueryPlan
) -> None:
    a, _ = jobs
    for number in range(2):
        for partition in range(STATE_PARTITIONS):
            if number == 0:
                a.open(partition)
            at = number * 100
            a.take(partition, batch({0: at}, {0: at + 100}, number))
    kept = a.tasks[0].marker
    with pytest.raises(ChangelogLost, match="state partition 1 has no commit marker"):
        start_point("q", [kept, None], INITIAL, {}, rebuild=False)
    a.tasks[1].marker = None
    lost = replace(batch({0: 200}, {0: 300}, 2), beginners=frozenset())
    with pytest.raises(OffsetOverlap, match="has no commit marker"):
        a.take(1, lost)
