"""Commit markers by source topic partition, on the real broker."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from holdfast.errors import IncompatibleStatement
from holdfast.local.broker import BrokerStatus
from holdfast.state.topics.source_progress import (
    PROGRESS_CONFIG,
    Of,
    SourceProgress,
    home_partition,
    progress_of,
)
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.idempotent_producer import Producer

PARTITIONS = 2


class Progress:
    """A progress topic, made for a source topic of two partitions."""

    def __init__(self, servers: str, name: str) -> None:
        self.client = {"bootstrap.servers": servers}
        self.topic = Admin(self.client).ensure_topic(name, PARTITIONS, config=PROGRESS_CONFIG).name
        self.producer = Producer(self.client)

    def mark(self, of: Of, partition: int, *offsets: int) -> None:
        for offset in offsets:
            self.put(of, partition, SourceProgress("in", partition, offset, offset).to_bytes())

    def put(self, of: Of, partition: int, value: bytes) -> None:
        home = home_partition(partition, PARTITIONS)
        self.producer.send(self.topic, of.key(partition), value, partition=home)
        self.producer.flush()

    def last(self, of: Of, partition: int) -> int | None:
        found = progress_of(self.client, self.topic, PARTITIONS, of, partition)
        return found.offset if found is not None else None


@pytest.fixture
def progress(kafka: BrokerStatus, kafka_topic_name: Callable[[str], str]) -> Progress:
    return Progress(kafka.bootstrap_servers, kafka_topic_name("progress"))


def test_the_last_marker_of_each_purpose_and_partition_counts(progress: Progress) -> None:
    assert progress.last(Of.RECORDS, 0) is None
    progress.mark(Of.RECORDS, 0, 5, 9)
    progress.mark(Of.DEAD_LETTERS, 0, 7)
    progress.mark(Of.RECORDS, 2, 3)  # the source grew: partitions 0 and 2 share a home
    assert (progress.last(Of.RECORDS, 0), progress.last(Of.DEAD_LETTERS, 0)) == (9, 7)
    assert (progress.last(Of.RECORDS, 2), progress.last(Of.RECORDS, 1)) == (3, None)


def test_a_marker_far_from_the_end_is_found(progress: Progress) -> None:
    progress.mark(Of.DEAD_LETTERS, 0, 7)
    for offset in range(300):
        value = SourceProgress("in", 0, offset, offset).to_bytes()
        progress.producer.send(progress.topic, Of.RECORDS.key(0), value, partition=0)
    progress.producer.flush()
    assert (progress.last(Of.DEAD_LETTERS, 0), progress.last(Of.RECORDS, 0)) == (7, 299)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"not ours", "8 bytes"),
        (json.dumps({"offset": 3}).encode(), "missing 2 required"),
        (SourceProgress("in", 0, 1, 1, format_version=9).to_bytes(), "format version 9, not 1"),
    ],
)
def test_what_is_not_a_marker_is_refused(progress: Progress, value: bytes, why: str) -> None:
    progress.put(Of.RECORDS, 0, value)
    with pytest.raises(IncompatibleStatement, match=why):
        progress.last(Of.RECORDS, 0)
