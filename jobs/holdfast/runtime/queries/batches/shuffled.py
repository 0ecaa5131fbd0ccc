"""One batch of a query with state: executors read Kafka, pack the records, and keep the state.

Spark only moves the blobs (ADR 29, 47).  The same executor reads a topic partition batch after
batch, so that its consumer prefetches, and each executor has one task for all of its state
partitions (ADR 19).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark import SparkContext
from pyspark.core.rdd import RDD

from holdfast.ingest.reading import read_packed
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.jvm.descriptions import batch_job, stage
from holdfast.runtime.jvm.spark_internals import located, on_owners, shuffled
from holdfast.runtime.queries.batches.retrying import Homes, stores_done
from holdfast.runtime.queries.batches.workers import (
    AT_ONCE,
    by_location,
    reader_of,
    side_by_side,
    spare_the_collector,
)
from holdfast.runtime.queries.feeds import Read
from holdfast.runtime.watching.read_times import ReadTime, ReadTimes
from holdfast.tasks.aggregates.user import load_functions
from holdfast.tasks.pack.packing import unpacked
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, TaskReport
from holdfast.tasks.worker import Answer, process_partition
from holdfast.types.trace_links import TraceLinks

__all__ = ["run_shuffled"]

# Fewer large payloads (bytes) in parallel: all that have begun are in memory.
_LARGE, _LARGE_AT_ONCE = 4 << 20, 2


def run_shuffled(
    context: SparkContext,
    read: Read,
    plan: QueryPlan,
    batch: Batch,
    cluster: Cluster,
    times: ReadTimes | None = None,
) -> list[TaskReport]:
    """Applies a batch to its state partitions, exactly once.

    Args:
        times: where the tasks that read put their times; None: nobody wants to know.

    Raises:
        HoldfastError: a partition answered with an error no retry can cure, or retries ran out.
    """
    cut: _Cut | None = None

    def attempt(pending: Sequence[int], where: Homes) -> list[Answer]:
        nonlocal cut
        groups = None if cut is None else cut.groups(pending, where)
        if cut is None or groups is None:
            reading = _Reading(read, plan, times)
            cut = _cut(context, reading, cluster.locations(), by_location(pending, where))
            groups = cut.groups(pending, where)
            assert groups is not None
        anywhere = next(iter(groups.values()))[0]  # for tasks that are done already
        locations = [groups.get(t, (anywhere, {}))[0] for t in range(cut.count)]
        volumes = {task: of for task, (_, of) in groups.items()}
        work = partial(_process_task, plan=plan, batch=batch, groups=volumes)
        stage(context, f"keep the state of {plan.query.id}")
        waves = _waves({task: location for task, (location, _) in groups.items()})
        return [a for tasks in waves for a in on_owners(cut.blobs, locations, work, tasks)]

    with batch_job(context, plan.query.id, batch.batch_id, read.records):
        return stores_done(plan, cluster, attempt, batch)


def _waves(locations: Mapping[int, str]) -> list[list[int]]:
    """The tasks, in order, with at most one of each location at a time.

    Executors have one core: of two tasks for the same one, as after a take-over, Spark would soon
    send the second to another executor, which does not own its stores.
    """
    found: list[list[int]] = []
    begun: Counter[str] = Counter()
    for task, location in sorted(locations.items()):
        if begun[location] == len(found):
            found.append([])
        found[begun[location]].append(task)
        begun[location] += 1
    return found


@dataclass(frozen=True)
class _Reading:
    """The ranges that tasks read, for which query, and where they put their times."""

    read: Read
    plan: QueryPlan
    times: ReadTimes | None


@dataclass(frozen=True)
class _Cut:
    """A batch as blobs by task; `tasks`: the task of each state partition.

    Spark keeps the shuffled blobs, and reads those of a lost executor again: a retry can use the
    same cut as long as each task's state partitions are on one executor.
    """

    blobs: RDD[bytes]
    tasks: Mapping[int, int]

    @property
    def count(self) -> int:
        return len(set(self.tasks.values()))

    def groups(
        self, pending: Sequence[int], where: Homes
    ) -> dict[int, tuple[str, dict[int, Assigned]]] | None:
        """For each pending task, its location and its state partitions; None: recut."""
        found: dict[int, tuple[str, dict[int, Assigned]]] = {}
        for partition in pending:
            assigned, location = where[partition]
            place, task = found.setdefault(self.tasks[partition], (location, {}))
            if place != location:
                return None
            task[partition] = assigned
        return found


def _cut(
    context: SparkContext,
    reading: _Reading,
    locations: Sequence[str],
    groups: Sequence[tuple[str, Mapping[int, Assigned]]],
) -> _Cut:
    """Reads and cuts the batch for the executors that own its state partitions now."""
    tasks = {p: task for task, (_, volumes) in enumerate(groups) for p in volumes}
    places = [reader_of(r, locations) for r in reading.read.ranges]
    work = partial(_read_range, reading=reading, tasks=tasks)
    stage(context, f"read and pack {', '.join(s.topic for s in reading.plan.query.sources)}")
    return _Cut(shuffled(located(context, places), work, len(groups)), tasks)


def _read_range(
    _index: int, elements: Iterable[int], *, reading: _Reading, tasks: Mapping[int, int]
) -> Iterator[tuple[int, bytes]]:
    read, plan = reading.read, reading.plan
    load_functions(plan.settings.functions)
    for index in elements:  # Spark does not reuse a worker that leaves some of its input
        of, began = read.ranges[index], time.time()
        topic = plan.query.sources[of.side].topic
        links = TraceLinks(plan.settings.tracing.links_read, topic, of.partition)
        for place, blob in read_packed(read.options, plan.query, plan.state_partitions, of, links):
            task = tasks.get(place)
            if task is not None:
                yield task, blob
        if reading.times is not None:
            told = (began, time.time(), of.end - of.start, links.found)
            reading.times.add([ReadTime(topic, of.partition, *told)])


def _process_task(
    task: int,
    parts: list[bytes],
    *,
    plan: QueryPlan,
    batch: Batch,
    groups: Mapping[int, Mapping[int, Assigned]],
) -> Iterator[Answer]:
    spare_the_collector()
    blobs = unpacked(parts)
    parts.clear()  # frees each partition's parts as soon as it is done
    largest = max((sum(b.size for b in each) for each in blobs.values()), default=0)
    work = partial(_process, plan, batch, groups[task], blobs)
    at_once = AT_ONCE if largest < _LARGE else min(AT_ONCE, _LARGE_AT_ONCE)
    yield from side_by_side(work, groups[task], at_once)


def _process(
    plan: QueryPlan,
    batch: Batch,
    assigned: Mapping[int, Assigned],
    blobs: dict[int, list[pa.Buffer]],
    partition: int,
) -> Answer:
    return process_partition(plan, partition, assigned[partition], batch, blobs.pop(partition, []))
