"""The order of records, as commit markers and the rules of Kafka Streams give it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.judge.read.arrivals import Batches, Lane, home_of
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, SqlType


def marker(starts: dict[int, int], ends: dict[int, int], topic: str = "in") -> dict[str, Any]:
    edges = {"start": list(starts.items()), "end": list(ends.items())}
    return {"source": {"topic": topic, **edges}, "stream_time_ms": 7}


def lane(*records: tuple[int, int, int]) -> Lane:
    """A lane from (topic partition, offset, time) of each record."""
    partitions, offsets, times = zip(*records, strict=True)
    return Lane("in", [(0,)] * len(records), partitions, offsets, times)


def rows(batches: Batches, *lanes: Lane) -> list[tuple[int, int]]:
    return [(side, row) for _, side, row in batches.in_order(lanes)]


def one_batch() -> Batches:
    batches = Batches()
    batches.add(0, marker({0: 0, 1: 0}, {0: 9, 1: 9}))
    return batches


def test_of_several_queues_the_one_whose_next_record_is_oldest_comes_first() -> None:
    found = rows(one_batch(), lane((0, 0, 50), (0, 1, 70), (1, 0, 60)))
    assert found == [(0, 0), (0, 2), (0, 1)]


def test_an_old_record_comes_with_the_one_before_it_in_its_queue() -> None:
    assert rows(one_batch(), lane((0, 0, 50), (0, 1, 10), (1, 0, 20))) == [(0, 2), (0, 0), (0, 1)]


def test_of_equal_times_the_left_side_comes_first_then_the_lower_partition() -> None:
    left, right = lane((1, 0, 5)), lane((0, 0, 5))
    assert rows(one_batch(), left, right) == [(0, 0), (1, 0)]
    assert rows(one_batch(), lane((1, 0, 5), (0, 0, 5))) == [(0, 1), (0, 0)]


def test_batches_come_one_after_the_other_whatever_the_times() -> None:
    batches = Batches()
    batches.add(0, marker({0: 0, 1: 0}, {0: 0, 1: 1}))
    batches.add(0, marker({0: 0, 1: 1}, {0: 1, 1: 1}))
    assert rows(batches, lane((0, 0, 1), (1, 0, 99))) == [(0, 1), (0, 0)]
    assert list(batches.by_batch(lane((0, 0, 1), (1, 0, 99)))) == [(0, [1]), (0, [0])]
    assert batches.ends() == {("in", 0): 1, ("in", 1): 1}
    assert batches.newest_ms == {0: 7}
    assert not batches.broken


def test_each_state_partition_has_batches_of_its_own() -> None:
    batches = Batches()
    batches.add(0, marker({0: 0}, {0: 2}))
    batches.add(1, marker({0: 0}, {0: 1}))
    batches.add(1, marker({0: 1}, {0: 2}))
    both = Lane("in", [(0, 1), (0, 1)], [0, 0], [0, 1], [9, 3])
    assert [(home, row) for home, _, row in batches.in_order([both])] == [
        (0, 0), (0, 1), (1, 0), (1, 1)]  # fmt: skip


@pytest.mark.parametrize("second", [{0: 3}, {0: 1}])
def test_a_marker_that_does_not_follow_the_one_before_leaves_the_order_unknown(
    second: dict[int, int],
) -> None:
    batches = Batches()
    batches.add(0, marker({0: 0}, {0: 2}))
    batches.add(0, marker(second, {0: 5}))
    assert "in-0 offset" in batches.broken
    compacted = Batches()
    compacted.add(0, marker({0: 4}, {0: 5}))
    assert compacted.broken


def test_other_topics_of_a_marker_count_too() -> None:
    batches = Batches()
    told = marker({0: 0}, {0: 2})
    told["source"]["others"] = [marker({0: 0}, {0: 6}, "other")["source"]]
    batches.add(0, told)
    assert batches.ends() == {("in", 0): 2, ("other", 0): 6}


@pytest.mark.parametrize(
    ("types", "key"),
    [([STRING], ("Aliens",)), ([BIGINT], (7,)), ([INTEGER], (7,)), ([STRING, BIGINT], ("a", 1))],
)
def test_a_key_has_one_state_partition(types: list[SqlType], key: tuple[Any, ...]) -> None:
    home = home_of(types, 8)
    assert home is not None
    assert 0 <= home(key) < 8
    assert home(None) == 42 % 8


def test_keys_of_other_types_are_placed_only_where_there_is_one_place() -> None:
    assert home_of([DOUBLE], 8) is None
    one = home_of([DOUBLE], 1)
    assert one is not None
    assert one((1.5,)) == 0
