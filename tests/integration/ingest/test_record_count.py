"""Counting dead letters: committed records, not offsets."""

from __future__ import annotations

import time

import pytest

from holdfast.errors import TopicMissing
from holdfast.local.broker import BrokerStatus
from holdfast.transport.record_count import RecordCount
from tests.integration.ingest import topics


def reaches(counter: RecordCount, expected: int) -> None:
    deadline = time.monotonic() + 15
    while (found := counter.count()) < expected:
        assert time.monotonic() < deadline, f"{found} records, not {expected}"
        time.sleep(0.05)
    assert found == expected


def test_markers_and_aborted_records_are_not_counted(kafka: BrokerStatus) -> None:
    servers = kafka.bootstrap_servers
    topic = topics.create(servers, partitions=2)
    counter = RecordCount({"bootstrap.servers": servers}, topic)
    assert counter.count() == 0
    topics.transaction(servers, topic, [(None, b"a"), (None, b"b")])
    topics.transaction(servers, topic, [(None, b"x")], commit=False)
    topics.transaction(servers, topic, [(None, b"c")], partition=1)
    reaches(counter, 3)
    counter.close()
    topics.delete_records(servers, topic, 0, 2)
    topics.transaction(servers, topic, [(None, b"d")])
    reaches(counter, 4)
    counter.close()


def test_a_missing_topic_is_told(kafka: BrokerStatus) -> None:
    counter = RecordCount({"bootstrap.servers": kafka.bootstrap_servers}, "no-such-topic")
    with pytest.raises(TopicMissing):
        counter.count()
