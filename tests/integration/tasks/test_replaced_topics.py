"""A source topic that was made again, on a real broker: offsets of the old one mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from holdfast.errors import OffsetOverlap
from holdfast.ingest.dead_letters import DeadLetters
from holdfast.ingest.records import BadRecord
from holdfast.local.broker import BrokerStatus
from holdfast.state.topics.source_progress import Of, progress_of
from holdfast.tasks import worker
from holdfast.tasks.plan import StreamPlan, TaskReport
from holdfast.tasks.stream_task import StreamTask
from holdfast.transport.cluster.admin import Admin
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import TIMESTAMP, TOMBSTONE
from tests.simulation.jobs import one_stream as stream


def _read(batch: int) -> Callable[[], list[pa.RecordBatch]]:
    """The decoded records of a batch."""
    values = range(batch * stream.SIZE, (batch + 1) * stream.SIZE)
    columns = {
        "K": pa.array([f"k{v}" for v in values]),
        "V": pa.array(values, pa.int64()),
        TIMESTAMP: pa.array(values, pa.int64()),
        TOMBSTONE: pa.array([False] * stream.SIZE),
    }
    return lambda: [pa.RecordBatch.from_pydict(columns)]


def test_a_query_without_state_does_not_skip_the_records_of_the_new_topic(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str]
) -> None:
    plan = stream.plan_of(kafka.bootstrap_servers, kafka_topic_name("app"))
    old = replace(plan, source_id="old")
    for number in range(2):
        ends = number * stream.SIZE, (number + 1) * stream.SIZE
        assert isinstance(worker.process_stream(old, 0, *ends, _read(number)), TaskReport)
    asleep = replace(plan, source_id="new")
    refused = worker.process_stream(asleep, 0, 0, stream.SIZE, _read(2))
    assert isinstance(refused, OffsetOverlap)
    told = replace(asleep, replaced=frozenset({"old"}))
    report = worker.process_stream(told, 0, 0, stream.SIZE, _read(2))
    assert isinstance(report, TaskReport)
    assert (report.skipped, report.emitted) == (False, stream.SIZE)
    again = worker.process_stream(told, 0, 0, stream.SIZE, _read(2))
    assert isinstance(again, TaskReport)
    assert again.skipped
    marker = progress_of(plan.settings.client(), plan.progress, 1, Of.RECORDS, 0)
    assert marker is not None
    assert (marker.offset, marker.topic_id) == (stream.SIZE, "new")
    with pytest.raises(OffsetOverlap, match=r"with the id old, .* the id new"):
        _take(old)


def _take(plan: StreamPlan) -> None:
    task: StreamTask = stream.open_task(plan)
    try:
        task.process(2 * stream.SIZE, 3 * stream.SIZE, _read(2))
    finally:
        task.close()


def test_bad_records_of_the_new_topic_are_set_aside_too(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str]
) -> None:
    plan = stream.plan_of(kafka.bootstrap_servers, kafka_topic_name("app"))
    admin = Admin(plan.settings.client())
    letters = admin.ensure_topic(kafka_topic_name("letters"), 1, -1, {}).name
    options = IngestOptions(
        plan.query.source,
        plan.settings.client(),
        (),
        dead_letter_topic=letters,
        progress_topic=plan.progress,
        transactional_id_prefix=plan.settings.application_id,
        topic_id="old",
    )
    assert _written(options, 7) == 1
    assert _written(options, 3) == 0, "it is there already"
    assert _written(replace(options, topic_id="new"), 3) == 1
    assert _written(replace(options, topic_id="new"), 3) == 0


def _written(options: IngestOptions, offset: int) -> int:
    writer = DeadLetters(options, 0)
    try:
        return writer.write([BadRecord(b"k", b"bad", offset, 0, "no JSON")])
    finally:
        writer.close()
