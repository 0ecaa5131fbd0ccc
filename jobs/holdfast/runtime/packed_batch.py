"""A packed batch: executors read Kafka, pack what they read, and keep the state.

Spark plans the batch (which offsets) and moves the blobs; nothing of it is a row of Spark SQL.
Each topic partition is read by the same executor batch after batch, whose consumer has fetched
ahead, and each executor has one task for all of its state partitions (ADR 19).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark import SparkContext
from pyspark.core.rdd import RDD

from holdfast.ingest.ranges import KafkaRange
from holdfast.ingest.reading import read_packed
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.micro_batch import (
    AT_ONCE,
    Homes,
    by_location,
    side_by_side,
    spare_the_collector,
    until_done,
)
from holdfast.runtime.spark_internals import located, on_owners, shuffled
from holdfast.tasks.packing import unpacked
from holdfast.tasks.plan import Batch, QueryPlan, TaskReport
from holdfast.tasks.worker import Answer, process_partition
from holdfast.types.ingest import IngestOptions

__all__ = ["PackedRead", "run_packed"]

# Of large payloads (bytes) fewer at once: all of theirs that are begun are in memory.
_LARGE, _LARGE_AT_ONCE = 4 << 20, 2


@dataclass(frozen=True)
class PackedRead:
    """What executors read for a batch: ranges of the inputs of `options`."""

    options: IngestOptions
    ranges: Sequence[KafkaRange]


def run_packed(
    context: SparkContext, read: PackedRead, plan: QueryPlan, batch: Batch, cluster: Cluster
) -> list[TaskReport]:
    """Applies a batch to all state partitions of a query whose batches are packed, exactly once.

    A retry reads the batch again, for the executors that have its state partitions by then.

    Raises:
        HoldfastError: a partition answered with an error no retry can cure, or retries ran out.
    """

    def attempt(pending: Sequence[int], where: Homes) -> list[Answer]:
        groups = by_location(pending, where)
        tasks = {p: task for task, (_, volumes) in enumerate(groups) for p in volumes}
        blobs = _read(context, read, cluster.locations(), tasks)
        work = partial(_process_packed, plan=plan, batch=batch, groups=[v for _, v in groups])
        return on_owners(blobs, [location for location, _ in groups], work, range(len(groups)))

    return until_done(plan, cluster, attempt)


def _read(
    context: SparkContext, read: PackedRead, locations: Sequence[str], tasks: Mapping[int, int]
) -> RDD[bytes]:
    """Blobs by task; `tasks`: of each state partition, the task that processes it, if one does."""
    places = [_reader_of(r, locations) for r in read.ranges]
    work = partial(_read_range, read=read, tasks=tasks)
    return shuffled(located(context, places), work, len(set(tasks.values())))


def _reader_of(wanted: KafkaRange, locations: Sequence[str]) -> str:
    """The same from batch to batch, whatever else a batch has."""
    return locations[(wanted.partition + wanted.side) % len(locations)]


def _read_range(
    _index: int, elements: Iterable[int], *, read: PackedRead, tasks: Mapping[int, int]
) -> Iterator[tuple[int, bytes]]:
    for index in elements:  # a worker that leaves some of its input is not used again
        for place, blob in read_packed(read.options, read.ranges[index]):
            task = tasks.get(place)
            if task is not None:
                yield task, blob


def _process_packed(
    task: int,
    parts: list[bytes],
    *,
    plan: QueryPlan,
    batch: Batch,
    groups: Sequence[Mapping[int, int]],
) -> Iterator[Answer]:
    spare_the_collector()
    blobs = unpacked(parts)
    parts.clear()  # each partition's are let go when it is done
    largest = max((sum(b.size for b in each) for each in blobs.values()), default=0)
    work = partial(_process, plan, batch, groups[task], blobs)
    at_once = AT_ONCE if largest < _LARGE else min(AT_ONCE, _LARGE_AT_ONCE)
    yield from side_by_side(work, groups[task], at_once)


def _process(
    plan: QueryPlan,
    batch: Batch,
    volumes: Mapping[int, int],
    blobs: dict[int, list[pa.Buffer]],
    partition: int,
) -> Answer:
    return process_partition(plan, partition, volumes[partition], batch, blobs.pop(partition, []))
