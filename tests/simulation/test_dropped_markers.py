"""A broker that drops the control records of a transaction: nothing is committed on top of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.errors import HangingTransaction
from holdfast.tasks import worker
from holdfast.tasks.plan import Assigned, Batch, QueryPlan, StreamPlan, TaskReport
from holdfast.types.ids import (
    OffsetRange,
    changelog_topic,
    progress_topic,
    state_transactional_id,
    stream_transactional_id,
)
from tests.simulation.fakes.clients import FakeProducer, clients
from tests.simulation.fakes.executors import Bench
from tests.simulation.jobs.payloads import payloads, reader
from tests.simulation.jobs.statements import topology


@pytest.fixture
def bench() -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        yield Bench(patch)


def _written(bench: Bench, count: int) -> None:
    log = bench.kafka.make_topic("s", 1, {}).logs[0]
    for _ in range(count):
        log.append(b"k", b'{"v": 1, "ts": 1000}', 1000)


def _leave_hanging(bench: Bench, transactional_id: str, *topics: str) -> None:
    """A predecessor's transaction is aborted, and its records are never told so."""
    producer: FakeProducer = clients(bench.kafka).producer({}, transactional_id, 60_000)
    producer.init()
    producer.begin()
    for topic in topics:
        producer.send(topic, 0, [b"\x01k"], [b"must never be seen"])
    bench.kafka.drop_end_of(transactional_id)


def test_a_state_task_refuses_to_go_on(bench: Bench) -> None:
    bench.on(0)
    query = topology("totals").queries[0]
    application_id = bench.settings.application_id
    changelog = changelog_topic(application_id, query.id)
    topic = bench.kafka.make_topic(changelog, 1, {})
    bench.kafka.make_topic(query.sink.topic, 1, {})
    plan = QueryPlan(bench.settings, query, changelog, topic.topic_id, 1, "state")
    transactional_id = state_transactional_id(application_id, query.id, 0)
    _leave_hanging(bench, transactional_id, query.sink.topic, changelog)
    source = OffsetRange.of("s", {0: 0}, {0: 1})
    _written(bench, 1)
    (payload,) = payloads(bench.settings, query, source, 1)
    answer = worker.process_partition(plan, 0, Assigned(bench.ordinal), Batch(0, source), payload)
    assert isinstance(answer, HangingTransaction)
    assert bench.kafka.log(query.sink.topic, 0).visible(0, 10, 10) == []


def test_a_query_without_state_refuses_to_go_on(bench: Bench) -> None:
    bench.on(0)
    query = topology("filter").queries[0]
    application_id = bench.settings.application_id
    progress = progress_topic(application_id, query.id)
    for name in (progress, query.sink.topic):
        bench.kafka.make_topic(name, 1, {})
    plan = StreamPlan(bench.settings, query, 1, progress, 1)
    transactional_id = stream_transactional_id(application_id, query.id, query.source.topic, 0)
    _written(bench, 2)
    first = worker.process_stream(plan, 0, 0, 1, reader(bench.settings, query, 0, 0, 1))
    assert isinstance(first, TaskReport), first
    _leave_hanging(bench, transactional_id, query.sink.topic, progress)
    bench.on(1)
    answer = worker.process_stream(plan, 0, 1, 2, reader(bench.settings, query, 0, 1, 2))
    assert isinstance(answer, HangingTransaction)
