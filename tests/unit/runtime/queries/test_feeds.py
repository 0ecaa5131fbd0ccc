"""A feed plans batches from the offsets of its query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from holdfast.config.settings import Settings
from holdfast.ingest.planner import Planner
from holdfast.ingest.ranges import KafkaRange
from holdfast.runtime.queries.feeds import Feed, Read
from holdfast.runtime.queries.inputs import Inputs
from holdfast.sql import compile_text
from holdfast.tasks.plan import Batch, TaskReport
from holdfast.types.ids import OffsetRange, Place
from holdfast.types.ingest import Planned

SQL = """
CREATE STREAM s (k VARCHAR KEY) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""
_WAIT_S = 30.0


class _Taker:
    """A query: its offsets, and the batches that it took."""

    def __init__(self, done: dict[Place, int], *, held_back: bool = False) -> None:
        self.done = done
        self.taken: list[OffsetRange] = []
        self.some = threading.Event()
        self._held_back = held_back

    def join(self, places: Mapping[Place, int]) -> None:
        self.done = {**places, **self.done}

    def moves_time(self, planned: Planned) -> bool:
        return self._held_back and planned.watermark_ms is not None

    def take(self, source: OffsetRange, planned: Planned, unwanted: Callable[[], bool]) -> None:
        assert not unwanted()
        self.taken.append(source)
        self.done = {**self.done, **source.ends()}
        self._held_back = False
        self.some.set()


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> dict[Place, int]:
    """The log ends that the planner finds; logs start at offset 3."""
    found: dict[Place, int] = {}

    def plan(_self: Planner, begin: Mapping[Place, int], _target: Any = None) -> Planned:
        end = {place: high if place in begin else 3 for place, high in found.items()}
        return Planned(end, None, 7)

    monkeypatch.setattr(Planner, "plan", plan)
    return found


@pytest.fixture
def feed() -> Feed:
    def process(read: Read, batch: Batch) -> list[TaskReport]:
        seen.append((read, batch))
        return []

    seen: list[tuple[Read, Batch]] = []
    query = compile_text(SQL).queries[0]
    made = Feed(Inputs(query, Settings("app"), ids={"s": "id"}), process, 0)
    vars(made)["seen"] = seen
    return made


@pytest.fixture
def taken(feed: Feed) -> Iterator[Callable[[_Taker], list[OffsetRange]]]:
    """Runs a stream until its first batch was taken, or until it was seen idle."""
    streams = []

    def run(taker: _Taker) -> list[OffsetRange]:
        stream = feed.stream(taker)
        streams.append(stream)
        deadline = time.monotonic() + _WAIT_S
        while not (taker.some.is_set() or stream.idle):
            assert stream.active, stream.error()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        stream.stop()
        return taker.taken

    yield run
    assert all(stream.error() is None for stream in streams)


def test_a_batch_goes_from_the_querys_offsets_to_the_planned_end(
    taken: Callable[[_Taker], list[OffsetRange]], ends: dict[Place, int]
) -> None:
    ends["s", 0] = 9
    assert taken(_Taker({("s", 0): 4})) == [
        OffsetRange.over(["s"], {("s", 0): 4}, {("s", 0): 9}, {"s": "id"})
    ]


def test_without_new_data_there_is_no_batch(
    taken: Callable[[_Taker], list[OffsetRange]], ends: dict[Place, int]
) -> None:
    ends["s", 0] = 4
    assert taken(_Taker({("s", 0): 4})) == []


def test_results_that_wait_for_time_have_a_batch_without_records(
    taken: Callable[[_Taker], list[OffsetRange]], ends: dict[Place, int]
) -> None:
    ends["s", 0] = 4
    (source,) = taken(_Taker({("s", 0): 4}, held_back=True))
    assert (source.starts(), source.ends()) == ({("s", 0): 4}, {("s", 0): 4})


def test_a_new_partition_joins_before_the_batch_that_reads_it(
    taken: Callable[[_Taker], list[OffsetRange]], ends: dict[Place, int]
) -> None:
    ends |= {("s", 0): 4, ("s", 1): 8}
    (source,) = taken(_Taker({("s", 0): 4}))
    assert source.starts() == {("s", 0): 4, ("s", 1): 3}
    assert source.ends() == {("s", 0): 4, ("s", 1): 8}


def test_the_work_of_a_batch_gets_its_ranges_and_the_topics_id(feed: Feed) -> None:
    source = OffsetRange.over(["s"], {("s", 0): 4, ("s", 1): 2}, {("s", 0): 9, ("s", 1): 2})
    feed.know({"s": "new"})
    assert feed.work(Batch(5, source)) == []
    ((read, batch),) = vars(feed)["seen"]
    assert (read.ranges, read.records) == ([KafkaRange(0, 4, 9)], 5)
    assert (read.options.topic_id, batch.batch_id) == ("new", 5)
