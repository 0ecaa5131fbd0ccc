"""The assignor: balanced, sticky, and drawn to the volume that has the store."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.placement import assign


def _loads(assignment: dict[int, int]) -> list[int]:
    return sorted(Counter(assignment.values()).values())


def test_a_fresh_job_is_spread_evenly() -> None:
    assert _loads(assign(8, {0: {}, 1: {}}, {})) == [4, 4]


def test_an_unchanged_cluster_moves_nothing() -> None:
    first = assign(8, {0: {}, 1: {}, 2: {}}, {})
    assert assign(8, {0: {}, 1: {}, 2: {}}, first) == first


def test_a_restarted_driver_finds_every_store_where_it_was() -> None:
    stores = {0: dict.fromkeys((1, 3, 5, 7), 100), 1: dict.fromkeys((0, 2, 4, 6), 100)}
    assert assign(8, stores, {}) == {p: 0 if p % 2 else 1 for p in range(8)}


def test_the_smaller_lag_wins() -> None:
    assert assign(2, {0: {0: 10, 1: 90}, 1: {0: 50, 1: 20}}, {}) == {0: 1, 1: 0}


def test_only_the_partitions_of_a_lost_volume_move() -> None:
    before = {p: p % 2 for p in range(8)}
    after = assign(8, {0: dict.fromkeys(range(0, 8, 2), 5)}, before)
    assert set(after.values()) == {0}
    back = assign(8, {0: dict.fromkeys(range(8), 9), 1: {}}, after)
    assert sum(after[p] != back[p] for p in range(8)) == 4


def test_no_volume_is_an_error() -> None:
    with pytest.raises(ValueError, match="no live volume"):
        assign(1, {}, {})


volumes = st.dictionaries(
    st.integers(0, 5),
    st.dictionaries(st.integers(0, 15), st.integers(0, 1000), max_size=16),
    min_size=1,
    max_size=5,
)


@given(st.integers(1, 16), volumes, st.dictionaries(st.integers(0, 15), st.integers(0, 5)))
def test_always_complete_balanced_and_stable(
    partitions: int, stores: dict[int, dict[int, int]], previous: dict[int, int]
) -> None:
    assignment = assign(partitions, stores, previous)
    assert sorted(assignment) == list(range(partitions))
    assert set(assignment.values()) <= set(stores)
    capacity = -(-partitions // len(stores))
    assert max(Counter(assignment.values()).values()) <= capacity
    assert assign(partitions, stores, assignment) == assignment
