"""The decisions about a batch of a query with state that need no executor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from holdfast.config.settings import Settings, StateSettings
from holdfast.ingest.ranges import KafkaRange, kafka_ranges
from holdfast.runtime.queries.batches import shuffled as shuffled_batch
from holdfast.runtime.queries.batches.workers import reader_of
from holdfast.runtime.queries.feeds import Read
from holdfast.sql import compile_text
from holdfast.tasks.plan import Assigned, QueryPlan
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import Query, Source
from holdfast.types.trace_links import TraceLinks

SQL = """
CREATE STREAM s (k VARCHAR KEY) WITH (KAFKA_TOPIC='sales', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""
PLAN = QueryPlan(
    Settings("app", state=StateSettings(partitions=3)),
    compile_text(SQL).queries[0], "changelog", "id", 1, "state",
)  # fmt: skip
OPTIONS = IngestOptions(Source("SALES", "STREAM", "sales", (), ()), {}, ())


def test_a_topic_partition_keeps_its_reader_when_others_have_nothing_new() -> None:
    ranges = [KafkaRange(p, 0, 9, side=side) for side in (0, 1) for p in range(5)]
    readers = [reader_of(r, ["x", "y", "z"]) for r in ranges]
    assert readers == [*"xyzxy", *"yzxyz"]


def test_state_partitions_that_are_done_are_not_moved_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(
        _options: IngestOptions,
        _query: Query,
        state_partitions: int,
        wanted: KafkaRange,
        links: TraceLinks,
    ) -> Iterator[tuple[int, bytes]]:
        assert state_partitions == 3
        assert not links.found
        yield from ((place, b"%d of %d" % (place, wanted.partition)) for place in (0, 1, 2, 1))

    monkeypatch.setattr(shuffled_batch, "read_packed", read)
    what = Read(OPTIONS, [KafkaRange(7, 0, 9), KafkaRange(8, 0, 9)])
    elements = iter([1])
    reading = shuffled_batch._Reading(what, PLAN, None)
    found = list(shuffled_batch._read_range(0, elements, reading=reading, tasks={1: 0, 2: 4}))
    assert found == [(0, b"1 of 8"), (4, b"2 of 8"), (0, b"1 of 8")]
    assert next(elements, None) is None, "a worker that leaves some of its input ends"


def test_a_topic_partition_without_a_start_joins_with_nothing() -> None:
    start, end = {("sales", 0): 5, ("sales", 1): 7}, {("sales", p): 7 for p in range(3)}
    assert kafka_ranges(OPTIONS, start, end) == [KafkaRange(0, 5, 7)]


def cut(tasks: dict[int, int]) -> shuffled_batch._Cut:
    return shuffled_batch._Cut(cast("Any", None), tasks)


def test_a_retry_uses_the_cut_that_was_made_when_a_volume_has_come_back() -> None:
    made = cut({0: 0, 1: 1, 2: 0, 3: 1})
    assert made.count == 2
    where = {p: (Assigned(p % 2), ["executor_a_0", "executor_a_7"][p % 2]) for p in range(4)}
    assert made.groups([1, 3], where) == {1: ("executor_a_7", {1: Assigned(1), 3: Assigned(1)})}


def test_a_retry_cuts_anew_when_the_state_partitions_of_a_task_are_in_two_places() -> None:
    made = cut({0: 0, 1: 1, 2: 0, 3: 1})
    where = {p: (Assigned(p), f"executor_a_{p}") for p in range(4)}
    assert made.groups([1, 3], where) is None
    assert made.groups([3], where) == {1: ("executor_a_3", {3: Assigned(3)})}


def test_an_executor_has_one_task_at_a_time() -> None:
    assert shuffled_batch._waves({3: "b", 0: "a", 1: "c"}) == [[0, 1, 3]]
    taken_over = {0: "a", 1: "b", 2: "a", 3: "a", 4: "b"}
    assert shuffled_batch._waves(taken_over) == [[0, 1], [2, 4], [3]]
