"""Traces of batches for OpenTelemetry: what each part of a batch took, and where.

A batch links to the traces of records that it has read, as OpenTelemetry's conventions for batches
of messages have it: a batch has no one parent.

The driver alone makes spans, after a batch, from what the tasks have reported anyway: executors
need no library, and a job without `tracing.endpoint` does nothing here.  Times of tasks are those
of their executors' clocks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import holdfast
from holdfast.config.settings import Settings
from holdfast.errors import InvalidConfig
from holdfast.runtime.watching.read_times import ReadTime, ReadTimes, read_times
from holdfast.tasks.plan import Batch, TaskReport
from holdfast.types.statements.topology import Query
from holdfast.types.trace_links import TraceLink, chosen

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Link, Span
    from pyspark import SparkContext

__all__ = ["Tracer", "open_tracer"]

_EXPORT_S = 10  # of one request, and of what is left at the end
_STATE_PHASES = ("restore", "get", "merge", "produce", "commit", "put")
_STREAM_PHASES = ("produce", "commit")


def open_tracer(settings: Settings) -> Tracer | None:
    """The tracer of a job; None without `tracing.endpoint`.

    Raises:
        InvalidConfig: the libraries are not installed.
    """
    if not settings.tracing.endpoint:
        return None
    try:
        return Tracer(_provider(settings), settings.tracing.links)
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            f"tracing.endpoint needs the Python package {error.name}, which is not here.",
            action="install holdfast[otel] for the driver, or leave the property out.",
        ) from error


def _provider(settings: Settings) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

    named = {
        "service.name": settings.application_id,
        "service.version": holdfast.__version__,
    }
    provider = TracerProvider(
        resource=Resource.create(named),
        sampler=TraceIdRatioBased(settings.tracing.sample_share),
        span_limits=SpanLimits(max_links=max(1, settings.tracing.links)),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(f"{settings.tracing.endpoint}/v1/traces", timeout=_EXPORT_S)
    # It drops spans when its queue is full: a collector that is away holds no batch up.
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class Tracer:
    """Owns the export of a job's spans.  Called from several queries' threads.

    Args:
        links: the most that a batch has to traces of its records.
    """

    def __init__(self, provider: TracerProvider, links: int) -> None:
        self._provider, self._links = provider, links
        self._tracer = provider.get_tracer("holdfast", holdfast.__version__)
        self._lock = threading.Lock()
        self._reads: dict[str, ReadTimes] = {}  # by query id; Spark keeps each of them for ever

    def reading(self, context: SparkContext, query: Query) -> ReadTimes:
        """The place where the tasks that read the query's next batch put their times."""
        with self._lock:
            found = self._reads.get(query.id)
            if found is None:
                found = self._reads[query.id] = read_times(context)
            found.value = []
        return found

    def observe(
        self, query: Query, batch: Batch, reports: Sequence[TaskReport], seconds: float
    ) -> None:
        """Makes the trace of a batch that has ended now, `seconds` after it began."""
        if not seconds:  # stores were opened, there was no batch
            return
        with self._lock:
            told = self._reads.get(query.id)
        reads = [] if told is None else told.value
        ended = time.time()
        facts: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.batch.message_count": sum(report.records for report in reports),
            "messaging.destination.name": query.sink.topic,
            "holdfast.query": query.id,
            "holdfast.batch_id": batch.batch_id,
            "holdfast.emitted": sum(report.emitted for report in reports),
        }
        groups = [*(read.links for read in reads), *(report.links for report in reports)]
        links = chosen(groups, self._links)
        batch_span = self._span(f"batch {query.id}", ended - seconds, facts, None, links)
        for read in reads:
            self._child(batch_span, "read", read.began_s, read.ended_s, _facts_of(read))
        begun = [report.began_s for report in reports if report.began_s]
        if reads and begun:
            packed = max(read.ended_s for read in reads)
            self._child(batch_span, "shuffle", packed, max(packed, min(begun)), {})
        for report in reports:
            if report.began_s:
                self._task(batch_span, query, report)
        batch_span.end(_ns(ended))

    def close(self) -> None:
        """Exports what is left, for ten seconds at most: the library alone takes half a minute."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_EXPORT_S)

    def _task(self, parent: Span, query: Query, report: TaskReport) -> None:
        """The span of one state partition, or of a topic partition without state."""
        phases = list(_phases(query, report))
        what = "state partition" if query.stateful else "topic partition"
        span = self._span(what, report.began_s, _facts_of_task(query, report), parent)
        ended = report.began_s
        for name, took in phases:
            self._child(span, name, ended, ended + took, {})
            ended += took
        span.end(_ns(ended))

    def _child(
        self, parent: Span, name: str, began_s: float, ended_s: float, facts: dict[str, str | int]
    ) -> None:
        self._span(name, began_s, facts, parent).end(_ns(ended_s))

    def _span(
        self,
        name: str,
        began_s: float,
        facts: dict[str, str | int],
        parent: Span | None,
        links: Sequence[TraceLink] = (),
    ) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        within = Context() if parent is None else set_span_in_context(parent, Context())
        return self._tracer.start_span(
            name,
            within,
            attributes=facts,
            links=list(map(_link, links)),
            start_time=_ns(began_s),
        )


def _link(of: TraceLink) -> Link:
    from opentelemetry.trace import Link, SpanContext, TraceFlags

    sampled = TraceFlags(TraceFlags.SAMPLED)
    made_it = SpanContext(of.trace_id, of.span_id, is_remote=True, trace_flags=sampled)
    facts: dict[str, str | int] = {
        "messaging.destination.name": of.topic,
        "messaging.destination.partition.id": str(of.partition),
        "messaging.kafka.offset": of.offset,
    }
    return Link(made_it, facts)


def _phases(query: Query, report: TaskReport) -> Iterator[tuple[str, float]]:
    """The phases of a task in their order, with their seconds; those that it did not have not."""
    names: Iterable[str] = _STATE_PHASES if query.stateful else _STREAM_PHASES
    for name in names:
        took: float = getattr(report, f"{name}_seconds")
        if took > 0:
            yield name, took


def _facts_of(read: ReadTime) -> dict[str, str | int]:
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": read.topic,
        "messaging.destination.partition.id": str(read.partition),
        "holdfast.offsets": read.offsets,
    }


def _facts_of_task(query: Query, report: TaskReport) -> dict[str, str | int]:
    place = "holdfast.state_partition" if query.stateful else "holdfast.topic_partition"
    return {
        place: report.partition,
        "holdfast.executor": report.where.executor_id,
        "holdfast.records": report.records,
        "holdfast.emitted": report.emitted,
        "holdfast.rows": report.rows,
        "holdfast.restored_records": report.restored_records,
    }


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
