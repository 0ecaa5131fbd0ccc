"""The assignor: level, sticky, and drawn to the volume that has the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.placement import Goal, Placement, Stores, placed

FAR = 1_000_000  # the lag of a volume without a store
WARM = 100


def _goal(partitions: int = 8, standbys: int = 0, keep: int = 0, *, copies: bool = True) -> Goal:
    return Goal(partitions, standbys, WARM, keep, copies)


def _volume(
    held: Mapping[int, int] | Iterable[int] = (), node: str = "", partitions: int = 16
) -> Stores:
    """A volume with these stores: the lag of each, or 0."""
    lags = held if isinstance(held, Mapping) else dict.fromkeys(held, 0)
    return Stores({p: lags.get(p, FAR) for p in range(partitions)}, node)


def _empty(count: int, node: str = "") -> dict[int, Stores]:
    """Volumes of a job that has written nothing yet."""
    return {v: Stores(dict.fromkeys(range(16), 0), node) for v in range(count)}


def _loads(owners: Mapping[int, int]) -> list[int]:
    return sorted(Counter(owners.values()).values())


def _levelled(volumes: Mapping[int, Stores], placement: Placement) -> dict[int, Stores]:
    """The volumes once every owner and every standby is level."""
    here = {(p, v) for p, v in placement.owners.items()}
    here |= {(p, v) for p, copies in placement.standbys.items() for v in copies}
    return {
        v: Stores({p: 0 if (p, v) in here else FAR for p in s.lags}, s.node)
        for v, s in volumes.items()
    }


def test_a_fresh_job_is_spread_evenly() -> None:
    assert _loads(placed(_goal(), _empty(2), Placement()).owners) == [4, 4]


def test_every_executor_has_a_share_where_there_are_enough_partitions() -> None:
    assert _loads(placed(_goal(), _empty(5), Placement()).owners) == [1, 1, 2, 2, 2]


def test_an_unchanged_cluster_moves_nothing() -> None:
    first = placed(_goal(standbys=1), _empty(3), Placement())
    assert placed(_goal(standbys=1), _levelled(_empty(3), first), first) == first


def test_a_restarted_driver_finds_every_store_where_it_was() -> None:
    volumes = {0: _volume((1, 3, 5, 7)), 1: _volume((0, 2, 4, 6))}
    assert placed(_goal(), volumes, Placement()).owners == {p: 0 if p % 2 else 1 for p in range(8)}


def test_the_smaller_lag_wins() -> None:
    volumes = {0: _volume({0: 900, 1: 200}), 1: _volume({0: 500, 1: 700})}
    assert placed(_goal(2), volumes, Placement()).owners == {0: 1, 1: 0}


def test_a_lost_volume_is_replaced_by_the_standby_with_the_smallest_lag() -> None:
    last = Placement({0: 0}, {0: (1, 2)}, {0: 0})
    volumes = {1: _volume({0: 90}), 2: _volume({0: 40}), 3: _volume()}
    assert placed(_goal(1, 2), volumes, last).owners[0] in (1, 2)
    volumes = {1: _volume({0: 900}), 2: _volume({0: 400}), 3: _volume()}
    assert placed(_goal(1, 2), volumes, last).owners == {0: 2}


def test_an_added_executor_is_warmed_before_it_owns_anything() -> None:
    last = placed(_goal(), _empty(1), Placement())
    volumes = {0: _volume(range(8)), 1: _volume()}
    warming = placed(_goal(), volumes, last)
    assert warming.owners == last.owners
    moving = {p for p, copies in warming.standbys.items() if copies == (1,)}
    assert len(moving) == 4
    moved = placed(_goal(), _levelled(volumes, warming), warming)
    assert _loads(moved.owners) == [4, 4]
    assert {p for p, v in moved.owners.items() if v == 1} == moving
    assert not any(moved.standbys.values())


def test_a_standby_stays_while_another_volume_is_warmed() -> None:
    last = Placement({0: 0, 1: 1, 2: 0}, {0: (1,), 1: (0,), 2: (1,)}, {0: 0, 1: 1, 2: 0})
    volumes = {0: _volume((0, 1, 2)), 1: _volume((0, 1, 2)), 2: _volume()}
    after = placed(_goal(3, 1), volumes, last)
    (moving,) = (p for p, share in after.shares.items() if share == 2)
    assert after.owners == last.owners
    assert set(after.standbys[moving]) == {2, *last.standbys[moving]}


def test_an_executor_that_came_back_without_its_stores_owns_nothing_yet() -> None:
    last = Placement({0: 0, 1: 1}, {0: (1,), 1: (0,)}, {0: 0, 1: 1})
    after = placed(_goal(2, 1), {0: _volume(), 1: _volume((0, 1))}, last)
    assert after.owners == {0: 1, 1: 1}
    assert after.standbys == {0: (0,), 1: (0,)}
    assert after.shares == last.shares


def test_executors_to_be_removed_are_drained() -> None:
    last = placed(_goal(standbys=1), _empty(4), Placement())
    volumes = _levelled(_empty(4), last)
    warming = placed(_goal(standbys=1, keep=2), volumes, last)
    assert set(warming.shares.values()) == {0, 1}
    after = placed(_goal(standbys=1, keep=2), _levelled(volumes, warming), warming)
    assert set(after.owners.values()) == {0, 1}
    assert {v for copies in after.standbys.values() for v in copies} == {0, 1}


def test_a_standby_is_on_another_node_where_there_are_several() -> None:
    nodes = {0: "a", 1: "a", 2: "b", 3: "b"}
    volumes = {v: Stores(dict.fromkeys(range(16), 0), node) for v, node in nodes.items()}
    found = placed(_goal(standbys=1), volumes, Placement())
    for partition, copies in found.standbys.items():
        assert {nodes[v] for v in copies} != {nodes[found.owners[partition]]}


def test_one_node_has_standbys_all_the_same() -> None:
    found = placed(_goal(standbys=1), _empty(2, "a"), Placement())
    assert all(len(copies) == 1 for copies in found.standbys.values())


def test_memory_has_no_standbys() -> None:
    found = placed(_goal(copies=False), {0: _volume(range(8)), 1: _volume()}, Placement())
    assert _loads(found.owners) == [4, 4]
    assert not found.standbys


def test_no_volume_is_an_error() -> None:
    with pytest.raises(ValueError, match="no live volume"):
        placed(_goal(), {}, Placement())


_stores = st.dictionaries(st.integers(0, 15), st.integers(0, 1000), max_size=16)
_volumes = st.dictionaries(
    st.integers(0, 5), st.builds(_volume, _stores, st.sampled_from(["", "a", "b"])), min_size=1
)
_owners = st.dictionaries(st.integers(0, 15), st.integers(0, 5))
_copies = st.dictionaries(
    st.integers(0, 15), st.lists(st.integers(0, 5), max_size=3, unique=True).map(tuple)
)
_last = st.builds(Placement, _owners, _copies, _owners)
_goals = st.builds(_goal, st.integers(1, 16), st.integers(0, 3), st.integers(0, 6))


@given(_goals, _volumes, _last)
def test_complete_level_and_apart(goal: Goal, volumes: dict[int, Stores], last: Placement) -> None:
    found = placed(goal, volumes, last)
    partitions = list(range(goal.partitions))
    assert sorted(found.owners) == sorted(found.shares) == sorted(found.standbys) == partitions
    named = [*found.owners.values(), *(v for c in found.standbys.values() for v in c)]
    assert set(named) <= set(volumes)
    loads = Counter(dict.fromkeys(sorted(volumes)[: goal.keep or len(volumes)], 0))
    loads.update(found.shares.values())
    assert max(loads.values()) - min(loads.values()) <= 1
    for partition, copies in found.standbys.items():
        owner, share = found.owners[partition], found.shares[partition]
        assert owner not in copies
        assert len(set(copies)) == len(copies)
        assert {owner, share} <= {owner, *copies}
        others = set(sorted(volumes)[: goal.keep or len(volumes)]) - {owner, share}
        assert len(copies) == min(goal.standbys, len(others)) + (owner != share)


@given(_goals, _volumes, _last)
def test_no_partition_moves_to_a_cold_store_while_a_warm_one_is_there(
    goal: Goal, volumes: dict[int, Stores], last: Placement
) -> None:
    for partition, owner in placed(goal, volumes, last).owners.items():
        least = min(stores.lags[partition] for stores in volumes.values())
        assert volumes[owner].lags[partition] <= max(goal.warm, least)


@given(_goals, _volumes, _last)
def test_once_all_copies_are_level_it_comes_to_rest_with_every_share_owned(
    goal: Goal, volumes: dict[int, Stores], last: Placement
) -> None:
    for _ in range(3):
        last = placed(goal, volumes, last)
        volumes = _levelled(volumes, last)
    assert last.owners == last.shares
    assert placed(goal, volumes, last) == last
