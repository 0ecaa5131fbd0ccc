"""A read that fails in the middle of a batch of a query without state commits nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from holdfast.errors import DataLoss, HoldfastError, KafkaUnavailable
from holdfast.local.broker import BrokerStatus
from holdfast.tasks import worker
from holdfast.tasks.plan import StreamPlan, TaskReport
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import PartitionReader
from holdfast.types.statements.topology import TIMESTAMP, TOMBSTONE
from tests.integration.transport.settling import await_settled
from tests.simulation.jobs import one_stream as stream

SIZE = stream.SIZE


def _batch(values: range) -> pa.RecordBatch:
    columns = {
        "K": pa.array([f"k{v}" for v in values]),
        "V": pa.array(values, pa.int64()),
        TIMESTAMP: pa.array(values, pa.int64()),
        TOMBSTONE: pa.array([False] * len(values)),
    }
    return pa.RecordBatch.from_pydict(columns)


def _whole() -> Iterator[pa.RecordBatch]:
    yield _batch(range(SIZE // 2))
    yield _batch(range(SIZE // 2, SIZE))


def _keys(plan: StreamPlan) -> list[bytes | None]:
    topic, client = plan.query.sink.topic, plan.settings.client()
    await_settled(Admin(client), topic)
    reader = PartitionReader(client, topic, 0)
    start, end = reader.bounds()
    found = [key for chunk in reader.read(start, end) for key in chunk.keys] if start < end else []
    reader.close()
    return found


@pytest.mark.parametrize("kind", [DataLoss, KafkaUnavailable])
def test_the_next_attempt_writes_the_whole_batch_once(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], kind: type[HoldfastError]
) -> None:
    plan = stream.plan_of(kafka.bootstrap_servers, kafka_topic_name("app"))

    def half() -> Iterator[pa.RecordBatch]:
        yield _batch(range(SIZE // 2))
        raise kind("the second half is not there")

    for _ in range(2):
        assert isinstance(worker.process_stream(plan, 0, 0, SIZE, half), kind)
        assert _keys(plan) == []
    report = worker.process_stream(plan, 0, 0, SIZE, _whole)
    assert isinstance(report, TaskReport)
    assert (report.records, report.emitted, report.skipped) == (SIZE, SIZE, False)
    assert _keys(plan) == [b"k%d" % v for v in range(SIZE)]
    again = worker.process_stream(plan, 0, 0, SIZE, half)
    assert isinstance(again, TaskReport)
    assert again.skipped, "what is committed is not read again"


def test_a_read_that_fails_unexpectedly_commits_nothing(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str]
) -> None:
    plan = stream.plan_of(kafka.bootstrap_servers, kafka_topic_name("app"))

    def broken() -> Iterator[pa.RecordBatch]:
        yield _batch(range(SIZE // 2))
        raise MemoryError

    with pytest.raises(MemoryError):
        worker.process_stream(plan, 0, 0, SIZE, broken)
    assert _keys(plan) == []
    assert isinstance(worker.process_stream(plan, 0, 0, SIZE, _whole), TaskReport)
    assert _keys(plan) == [b"k%d" % v for v in range(SIZE)]
