"""Planning batches: limits, shares, new partitions, lost offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import DataLoss
from holdfast.ingest.offsets import batch_end, check_available


def test_without_a_limit_a_batch_takes_all_there_is() -> None:
    assert batch_end({0: 5, 1: 0}, {0: (0, 9), 1: (0, 0), 2: (3, 4)}, None) == {0: 9, 1: 0, 2: 4}


def test_a_limit_is_shared_by_backlog() -> None:
    bounds = {0: (0, 900), 1: (0, 100), 2: (0, 0)}
    assert batch_end({0: 0, 1: 0, 2: 0}, bounds, 100) == {0: 90, 1: 10, 2: 0}
    assert batch_end({0: 0, 1: 0, 2: 0}, bounds, 1) == {0: 1, 1: 0, 2: 0}


def test_what_retention_deleted_takes_no_share() -> None:
    bounds = {0: (1_000, 1_010), 1: (0, 10)}
    assert batch_end({0: 0, 1: 0}, bounds, 10) == {0: 1_005, 1: 5}


def test_a_topic_made_anew_never_moves_the_end_before_the_start() -> None:
    assert batch_end({0: 500, 1: 3}, {0: (0, 20)}, 100) == {0: 500, 1: 3}


_bounds = st.dictionaries(
    st.integers(0, 6),
    st.tuples(st.integers(0, 50), st.integers(0, 200)).map(lambda b: (b[0], b[0] + b[1])),
    max_size=6,
)
_starts = st.dictionaries(st.integers(0, 7), st.integers(0, 300), max_size=6)


@given(start=_starts, bounds=_bounds, limit=st.none() | st.integers(1, 500))
def test_a_batch_never_ends_before_its_start_nor_beyond_limit_or_log(
    start: dict[int, int], bounds: dict[int, tuple[int, int]], limit: int | None
) -> None:
    end = batch_end(start, bounds, limit)
    assert set(end) == set(start) | set(bounds)
    first = {p: max(start.get(p, low), low) for p, (low, _) in bounds.items()}
    taken = {p: end[p] - first[p] for p in bounds if first[p] < bounds[p][1]}
    assert all(end[p] >= offset for p, offset in start.items())
    assert all(end[p] <= max(start.get(p, low), high) for p, (low, high) in bounds.items())
    backlog = sum(max(0, high - first[p]) for p, (_, high) in bounds.items())
    assert sum(t for t in taken.values() if t > 0) == min(backlog, limit or backlog)


def test_every_lost_offset_is_named_with_ways_out() -> None:
    check_available("t", {0: 5, 1: 9}, {0: (5, 9), 1: (0, 9), 2: (7, 8)})
    with pytest.raises(DataLoss) as told:
        check_available("t", {0: 4, 1: 10, 3: 1, 4: 2}, {0: (5, 9), 1: (0, 9), 4: (0, 9)})
    assert told.value.fact == (
        "Topic t no longer has offsets that are to be read: "
        "partition 0: wanted 4, available 5 to 9 (exclusive); "
        "partition 1: wanted 10, available 0 to 9 (exclusive); "
        "partition 3: wanted 1, but the partition is gone."
    )
    assert "fail.on.data.loss=false" in told.value.action
    assert "application.id" in told.value.action
