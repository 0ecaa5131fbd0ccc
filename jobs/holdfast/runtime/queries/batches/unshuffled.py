"""One batch of a query without state: each task reads a topic partition and writes its results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from pyspark import SparkContext

from holdfast.ingest.reading import read
from holdfast.runtime.cluster import Cluster
from holdfast.runtime.jvm.descriptions import batch_job, stage
from holdfast.runtime.jvm.spark_internals import located, on_state_workers
from holdfast.runtime.queries.batches.retrying import until_done
from holdfast.runtime.queries.batches.workers import reader_of, spare_the_collector
from holdfast.runtime.queries.feeds import Read
from holdfast.tasks.plan import Batch, StreamPlan, TaskReport
from holdfast.tasks.worker import Answer, process_stream
from holdfast.types.trace_links import TraceLinks

__all__ = ["run_unshuffled"]


def run_unshuffled(
    context: SparkContext, wanted: Read, plan: StreamPlan, batch: Batch, cluster: Cluster
) -> list[TaskReport]:
    """Writes a batch of a stateless query, one transaction per source topic partition.

    Raises:
        HoldfastError: a topic partition answered with a fatal error, or retries ran out.
    """
    if not wanted.ranges:
        return []
    places = {r.partition: i for i, r in enumerate(wanted.ranges)}
    work = partial(_process_ranges, plan=plan, wanted=wanted)

    def attempt(pending: Sequence[int]) -> list[Answer]:
        locations = cluster.locations()
        preferred = [reader_of(r, locations) for r in wanted.ranges]
        return on_state_workers(located(context, preferred), work, [places[p] for p in pending])

    with batch_job(context, plan.query.id, batch.batch_id, wanted.records):
        stage(context, f"read {plan.query.source.topic} and write {plan.query.sink.topic}")
        return until_done(plan, cluster, list(places), attempt)


def _process_ranges(
    _index: int, elements: Iterable[int], *, plan: StreamPlan, wanted: Read
) -> Iterator[Answer]:
    spare_the_collector()
    most, topic = plan.settings.tracing.links_read, plan.query.source.topic
    for index in elements:  # Spark does not reuse a worker that leaves some of its input
        part = wanted.ranges[index]
        links = TraceLinks(most, topic, part.partition)
        work = partial(read, wanted.options, part, links)
        answer = process_stream(plan, part.partition, part.start, part.end, work)
        yield replace(answer, links=links.found) if isinstance(answer, TaskReport) else answer
