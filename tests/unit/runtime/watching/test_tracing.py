"""The driver's traces: what one batch's tasks tell is in its trace, and nothing is kept for it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, cast

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark import SparkContext

from holdfast.config.settings import Settings, TracingSettings
from holdfast.runtime.watching.read_times import ReadTime
from holdfast.runtime.watching.tracing import Tracer, open_tracer
from holdfast.sql import compile_text
from holdfast.tasks.plan import Batch
from holdfast.types.ids import OffsetRange
from tests.support.servers.otlp_receiver import OtlpReceiver

SQL = """
CREATE STREAM s (k VARCHAR) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""


@dataclass
class _Place:
    value: list[ReadTime]

    def add(self, told: list[ReadTime]) -> None:
        self.value = [*self.value, *told]


@dataclass
class _Spark:
    """Keeps each accumulator for ever, as Spark's own Python driver does."""

    made: list[_Place] = field(default_factory=list)

    def accumulator(self, value: list[ReadTime], _: object) -> Any:
        self.made.append(_Place(value))
        return self.made[-1]


def test_many_batches_of_a_query_need_one_accumulator_and_each_has_its_own_reads() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer, spark = Tracer(provider, 2), _Spark()
    (query,) = compile_text(SQL).queries
    for number in range(5):
        place = tracer.reading(cast("SparkContext", spark), query)
        place.add([ReadTime("s", number, 1.0, 2.0, 10)])
        if number == 3:  # the batch failed, and another one takes its place
            continue
        tracer.observe(query, Batch(number, OffsetRange.of("s", {}, {})), [], 0.5)
    reads = [dict(s.attributes or {}) for s in exporter.get_finished_spans() if s.name == "read"]
    assert [r["messaging.destination.partition.id"] for r in reads] == ["0", "1", "2", "4"]
    assert len(spark.made) == 1


def test_headers_are_read_only_if_batches_are_traced() -> None:
    assert TracingSettings().links_read == 0
    assert TracingSettings(endpoint="http://c:4318").links_read == 128
    assert TracingSettings(endpoint="http://c:4318", sample_share=0).links_read == 0
    assert TracingSettings(endpoint="http://c:4318", links=0).links_read == 0


def _opened(endpoint: str, sample_share: float = 1.0) -> Tracer:
    settings = replace(Settings("app", "none:9"), tracing=TracingSettings(endpoint, sample_share))
    tracer = open_tracer(settings)
    assert tracer is not None
    return tracer


def _batches(tracer: Tracer, count: int) -> None:
    (query,) = compile_text(SQL).queries
    for number in range(count):
        tracer.observe(query, Batch(number, OffsetRange.of("s", {}, {})), [], 0.5)


def test_a_share_of_nothing_exports_nothing() -> None:
    with OtlpReceiver() as receiver:
        for share, exported in ((0.0, 0), (1.0, 20)):
            tracer = _opened(receiver.url, share)
            _batches(tracer, 20)
            tracer.close()
            assert len(receiver.spans) == exported


def test_a_collector_that_is_away_holds_no_batch_and_no_end_up() -> None:
    tracer = _opened("http://127.0.0.1:1")
    began = time.monotonic()
    _batches(tracer, 10_000)  # more than the queue takes
    assert time.monotonic() - began < 10
    closing = time.monotonic()
    tracer.close()
    assert time.monotonic() - closing < 20
