"""One micro-batch of one query: from Spark's batch DataFrame to committed transactions.

The driver never decides what was committed; it sends the batch to every state partition, and each
one skips, commits or answers with an error.  Partitions with a retriable error are retried.
"""

from __future__ import annotations

import gc
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from pyspark import SparkContext
from pyspark.core.rdd import RDD
from pyspark.sql import DataFrame

from holdfast.errors import ExecutorsMissing, HoldfastError, NotOwner, Retriable
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.jvm.spark_internals import (
    activate,
    located,
    on_owners,
    on_state_workers,
    payload,
)
from holdfast.runtime.queries.frames import aggregate_frame, project_frame
from holdfast.runtime.queries.row_frames import read_frame, row_frame
from holdfast.tasks.plan import Batch, QueryPlan, StreamPlan, TaskReport
from holdfast.tasks.worker import Answer, open_partition, process_partition, process_stream
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import Planned, places_from_spark, plan_from_spark
from holdfast.types.topology import Query

__all__ = [
    "AT_ONCE",
    "Homes",
    "by_location",
    "offsets_of_batch",
    "open_stores",
    "plan_of_batch",
    "rehearse",
    "run_project",
    "run_stateful",
    "side_by_side",
    "spare_the_collector",
    "stores_done",
]

_LOG = logging.getLogger(__name__)
_BACKOFF_S = (0.1, 0.2, 0.5, 1.0, 2.0)
# State partitions per executor at a time: one computes while another's transaction ends.
AT_ONCE = 4
Homes = Mapping[int, tuple[int, str]]  # state partition -> its volume, and the Spark location


def offsets_of_batch(
    checkpoint: Path,
    batch_id: int,
    topics: Sequence[str],
    initial: Mapping[Place, int],
    ids: Mapping[str, str] | None = None,
) -> OffsetRange:
    """The source offsets of a batch, from the offset log that Spark wrote before the batch.

    The format is Spark's OffsetSeqLog: a version line, a metadata line, one line per source; a
    query has one source for all its topics.
    """
    start = initial if batch_id == 0 else _logged(checkpoint, batch_id - 1)
    end = _logged(checkpoint, batch_id)
    # A new topic partition joins with an empty range, see `Planner.end`.
    starts = {place: start.get(place, at) for place, at in end.items()}
    return OffsetRange.over(topics, starts, end, ids)


def plan_of_batch(checkpoint: Path, batch_id: int) -> Planned:
    """The end offsets and times of a batch, from Spark's offset log."""
    return plan_from_spark(_line(checkpoint, batch_id))


def _logged(checkpoint: Path, batch_id: int) -> dict[Place, int]:
    return places_from_spark(_line(checkpoint, batch_id))


def _line(checkpoint: Path, batch_id: int) -> dict[str, dict[str, int]]:
    lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    found: dict[str, dict[str, int]] = json.loads(lines[2])
    return found


def run_stateful(
    frame: DataFrame, plan: QueryPlan, batch: Batch, cluster: Cluster
) -> list[TaskReport]:
    """Applies a batch to its state partitions of a stateful query, exactly once.

    Raises:
        HoldfastError: a partition answered with a fatal error, or retries ran out.
    """
    shuffled = payload(_state_frame(frame, plan.query, plan.state_partitions))
    return stores_done(plan, cluster, partial(_attempt, shuffled, plan, batch), batch)


def rehearse(frame: DataFrame, plan: QueryPlan) -> None:
    """Plans a batch without running it, so that Spark loads and compiles its planner early."""
    activate(frame.sparkSession)
    payload(_state_frame(frame, plan.query, plan.state_partitions))


def _state_frame(frame: DataFrame, query: Query, state_partitions: int) -> DataFrame:
    if not query.inputs:
        return aggregate_frame(frame, query, state_partitions)
    if len(query.inputs) == 1:
        return row_frame([frame], query, state_partitions)
    return read_frame(frame, query, state_partitions)


def _attempt(
    shuffled: RDD[bytes], plan: QueryPlan, batch: Batch, pending: Sequence[int], where: Homes
) -> list[Answer]:
    """Runs one Spark task per state partition, each on its partition of Spark's shuffle."""
    locations = [where[p][1] for p in range(plan.state_partitions)]
    volumes = {p: v for p, (v, _) in where.items()}
    work = partial(_process_alone, plan=plan, batch=batch, volumes=volumes)
    return on_owners(shuffled, locations, work, pending)


def by_location(pending: Sequence[int], where: Homes) -> list[tuple[str, dict[int, int]]]:
    """Executor locations, each with its pending state partitions and their volumes."""
    found: dict[str, dict[int, int]] = {}
    for partition in pending:
        volume, location = where[partition]
        found.setdefault(location, {})[partition] = volume
    return sorted(found.items())


def open_stores(plan: QueryPlan, cluster: Cluster, context: SparkContext) -> list[TaskReport]:
    """Step 0 on every state partition: fence, restore, and read the commit markers."""

    def attempt(pending: Sequence[int], where: Homes) -> list[Answer]:
        groups = by_location(pending, where)
        rdd = located(context, [location for location, _ in groups])
        work = partial(_open_elements, plan=plan, groups=[v for _, v in groups])
        return on_state_workers(rdd, work, range(len(groups)))

    return stores_done(plan, cluster, attempt)


def stores_done(
    plan: QueryPlan,
    cluster: Cluster,
    attempt: Callable[[Sequence[int], Homes], list[Answer]],
    batch: Batch | None = None,
) -> list[TaskReport]:
    """Attempts the batch's state partitions, each where its store is, until all are done.

    A retry is safe: a state task only takes a batch whose start equals its commit marker in every
    topic partition.
    """
    wanted: Sequence[int] = range(plan.state_partitions)
    if batch is not None and batch.state_partitions is not None:
        wanted = sorted(batch.state_partitions)

    def placed(pending: Sequence[int]) -> list[Answer]:
        answers = attempt(pending, cluster.placement(plan.query.id))
        cluster.observe(plan.query.id, [a for a in answers if isinstance(a, TaskReport)])
        return answers

    return _until_done(plan, cluster, wanted, placed)


def _until_done(
    plan: QueryPlan | StreamPlan,
    cluster: Cluster,
    wanted: Sequence[int],
    attempt: Callable[[Sequence[int]], list[Answer]],
) -> list[TaskReport]:
    """Attempts the remaining partitions until all are done; waits for lost executors.

    Raises:
        PlanAgain: the batch does not fit the commit markers.
        HoldfastError: a partition answered with a fatal error, or retries ran out.
    """
    done: dict[int, TaskReport] = {}
    deadline = time.monotonic() + plan.settings.retry_timeout_ms / 1000
    for wait_s in _backoff():
        answers = _answers(attempt, [p for p in wanted if p not in done])
        done.update({a.partition: a for a in answers if isinstance(a, TaskReport)})
        errors = [a for a in answers if isinstance(a, HoldfastError)]
        cluster.waits(plan.query.id, errors)
        if not errors:
            return [done[p] for p in sorted(done)]
        _raise_if_final(plan.query.id, errors, deadline)
        if any(isinstance(e, NotOwner) for e in errors):
            cluster.invalidate()
        time.sleep(wait_s)
    raise AssertionError("the back-off never ends")


def _answers(
    attempt: Callable[[Sequence[int]], list[Answer]], pending: Sequence[int]
) -> list[Answer]:
    try:
        return attempt(pending)
    except ExecutorsMissing as missing:
        return [missing]


def _raise_if_final(query_id: str, errors: Iterable[HoldfastError], deadline: float) -> None:
    for error in errors:
        if not isinstance(error, Retriable) or time.monotonic() > deadline:
            raise error
        _LOG.warning("%s: retrying after %s: %s", query_id, type(error).__name__, error.fact)


def _backoff() -> Iterator[float]:
    yield from _BACKOFF_S
    while True:
        yield _BACKOFF_S[-1]


def _process_alone(
    partition: int,
    parts: list[bytes],
    *,
    plan: QueryPlan,
    batch: Batch,
    volumes: dict[int, int],
) -> Iterator[Answer]:
    spare_the_collector()
    yield process_partition(plan, partition, volumes[partition], batch, parts)


def side_by_side(
    work: Callable[[int], Answer], partitions: Iterable[int], at_once: int
) -> Iterator[Answer]:
    """The answers of state partitions, in order; works on a limited number in parallel."""
    if at_once == 1:
        yield from map(work, partitions)
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(work, partitions)


def spare_the_collector() -> None:
    """Freezes all objects of the worker, so that the garbage collector skips them.

    Spark runs a collection after every task, which takes 50 ms for imported modules: a sixth of a
    batch.  Right after a collection hardly any garbage is frozen.
    """
    gc.freeze()


def _open_elements(
    _index: int,
    elements: Iterable[int],
    *,
    plan: QueryPlan,
    groups: Sequence[Mapping[int, int]],
) -> Iterator[Answer]:
    for task in elements:
        volumes = groups[task]
        yield from side_by_side(partial(_open, plan, volumes), volumes, AT_ONCE)


def _open(plan: QueryPlan, volumes: Mapping[int, int], partition: int) -> Answer:
    return open_partition(plan, partition, volumes[partition])


def run_project(
    frame: DataFrame, plan: StreamPlan, batch: Batch, cluster: Cluster
) -> list[TaskReport]:
    """Writes a batch of a stateless query, one transaction per source topic partition.

    Raises:
        HoldfastError: a topic partition answered with a fatal error, or retries ran out.
    """
    ranges = _ranges(batch.source)
    if not ranges:
        return []
    projected = payload(project_frame(frame, plan.query))
    work = partial(_project, plan=plan, ranges=ranges)
    index_of = {topic_partition: i for i, (topic_partition, *_) in enumerate(ranges)}

    def attempt(pending: Sequence[int]) -> list[Answer]:
        locations = cluster.locations()
        preferred = [locations[p % len(locations)] for p in index_of]
        return on_owners(projected, preferred, work, [index_of[p] for p in pending])

    return _until_done(plan, cluster, list(index_of), attempt)


def _ranges(source: OffsetRange) -> list[tuple[int, int, int]]:
    """(topic partition, start, end) in the order of ingest's input partitions."""
    spans = [(p, span) for (_, p), span in sorted(source.items())]
    return [(p, s.start, s.end) for p, s in spans if s.start is not None and s.start < s.end]


def _project(
    at: int, parts: list[bytes], *, plan: StreamPlan, ranges: list[tuple[int, int, int]]
) -> Iterator[Answer]:
    spare_the_collector()
    partition, start, end = ranges[at]
    yield process_stream(plan, partition, start, end, parts)
