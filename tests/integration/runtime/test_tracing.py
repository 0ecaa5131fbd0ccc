"""A trace of each batch of a real job reaches a collector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from holdfast.local.broker import BrokerStatus
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.idempotent_producer import Producer
from tests.support.jobs.running_job import RunningJob
from tests.support.servers.otlp_receiver import OtlpReceiver, facts

pytestmark = pytest.mark.timeout(600)
SQL = """
CREATE STREAM s (k STRING, v INT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE STREAM c WITH (KAFKA_TOPIC='{topic}-c') AS SELECT k, v + 1 AS w FROM s;
CREATE TABLE t WITH (KAFKA_TOPIC='{topic}-t') AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""
RECORDS = 20
# The traces of records 0, 1, …: one more than a batch may link to, then what leads nowhere.
TRACES = [0xABC + n for n in range(4)]
HEADERS = [
    *(f"00-{trace:032x}-{trace + 1:016x}-01".encode() for trace in TRACES),
    *(b"", b"\xff\x00", b"00-", b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01"),
]


@pytest.fixture
def job(kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path) -> RunningJob:
    topic = kafka_topic_name("in")[-40:]
    (tmp_path / "job.sql").write_text(SQL.format(topic=topic))
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    Admin(client).ensure_topic(topic, 2)
    with closing(Producer(client)) as producer:
        for n in range(RECORDS):
            headers = {"traceparent": HEADERS[n]} if n < len(HEADERS) else {}
            value = b'{"k": "key %d", "v": %d}' % (n % 7, n)
            producer.send(topic, None, value, partition=n % 2, headers=headers)
        producer.flush()
    properties = {"state.partitions": "3", "executors": "1", "tracing.links": "3"}
    return RunningJob(tmp_path, client, "app-" + topic, properties=properties)


def _records(span: Span) -> int:
    return int(facts(span)["messaging.batch.message_count"])


def _within(inner: Span, outer: Span) -> bool:
    began, ended = outer.start_time_unix_nano, outer.end_time_unix_nano
    return began <= inner.start_time_unix_nano <= inner.end_time_unix_nano <= ended


def test_every_part_of_a_batch_is_told(job: RunningJob) -> None:
    with OtlpReceiver() as receiver:
        job.properties["tracing.endpoint"] = receiver.url
        ran = job.finish()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert receiver.services == {job.application_id}
    roots = [span for span in receiver.spans if not span.parent_span_id]
    assert {span.name for span in roots} == {"batch ctas_t", "batch csas_c"}
    counts = Counter[str]()
    for root in roots:
        counts[root.name] += _records(root)
    assert counts["batch ctas_t"] == RECORDS
    assert counts["batch csas_c"] >= RECORDS, "offsets: transactions' markers count, too"
    for name in counts:
        _links_to_records([root for root in roots if root.name == name])
    for root in roots:
        children = receiver.children(root)
        assert all(child.trace_id == root.trace_id for child in children)
        assert all(_within(child, root) for child in children)
        if root.name == "batch ctas_t":
            _is_whole(receiver, root, children)
        else:
            phases = [p.name for child in children for p in receiver.children(child)]
            assert {child.name for child in children} == {"topic partition"}
            assert phases == ["produce", "commit"] * len(children)


def _links_to_records(batches: list[Span]) -> None:
    """Links lead to records of both topic partitions, which the table and the stream read."""
    links = [link for batch in batches for link in batch.links]
    found = {int.from_bytes(link.trace_id, "big"): link for link in links}
    assert all(len(batch.links) <= 3 for batch in batches)
    assert 3 <= len(links) == len(found)
    assert found.keys() <= {*TRACES}
    assert all(int.from_bytes(link.span_id, "big") == trace + 1 for trace, link in found.items())
    places = {facts(link)["messaging.destination.partition.id"] for link in links}
    assert places == {"0", "1"}


def _is_whole(receiver: OtlpReceiver, root: Span, children: list[Span]) -> None:
    reads = [child for child in children if child.name == "read"]
    assert sum(facts(read)["holdfast.offsets"] for read in reads) >= _records(root)
    assert {facts(read)["messaging.destination.partition.id"] for read in reads} <= {"0", "1"}
    (shuffle,) = (child for child in children if child.name == "shuffle")
    assert shuffle.start_time_unix_nano == max(read.end_time_unix_nano for read in reads)
    tasks = [child for child in children if child.name == "state partition"]
    assert {facts(task)["holdfast.state_partition"] for task in tasks} == {0, 1, 2}
    for task in tasks:
        phases = receiver.children(task)
        assert "commit" in {phase.name for phase in phases}
        assert all(_within(phase, task) for phase in phases)
