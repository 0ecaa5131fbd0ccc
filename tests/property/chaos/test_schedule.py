"""A schedule has all faults that were requested, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.chaos.faults.schedule import (
    Asked,
    Combination,
    combinations,
    follows,
    groups,
    schedule,
)
from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.errors import Refused
from holdfast.types.components import BROKER, DRIVER, EXECUTOR, SERVER, TOPIC

PARTS = (DRIVER, EXECUTOR, BROKER, SERVER, "scheduler", TOPIC)

_some = st.sets(st.sampled_from(list(Fault)), min_size=1).map(frozenset)
possibilities: st.SearchStrategy[Mapping[str, frozenset[Fault]]] = st.dictionaries(
    st.sampled_from(PARTS), _some, min_size=1
)


@st.composite
def askings(draw: st.DrawFn) -> Asked:
    possible = draw(possibilities)
    return Asked(
        components=tuple(draw(st.sets(st.sampled_from(sorted(possible)), min_size=1))),
        faults=tuple(draw(st.sets(st.sampled_from(list(Fault)), min_size=1))),
        moments=tuple(draw(st.sets(st.sampled_from(list(Moment)), min_size=1))),
        possible=possible,
        rounds=draw(st.integers(1, 60)),
        executors=draw(st.integers(1, 3)),
        aimed=draw(st.booleans()),
    )


def _kind(i: Injection) -> Combination:
    return Combination(i.component, i.fault, i.moment, i.count)


def _scheduled(seed: int, asked: Asked) -> tuple[Injection, ...]:
    assume(combinations(asked))
    return schedule(seed, asked)


@given(st.integers(0, 1 << 31), askings())
def test_the_same_seed_gives_the_same_schedule(seed: int, asked: Asked) -> None:
    assert _scheduled(seed, asked) == schedule(seed, asked)


@given(st.integers(0, 1 << 31), askings(), st.integers(0, 200))
def test_a_longer_schedule_goes_on_where_a_shorter_ends(seed: int, asked: Asked, more: int) -> None:
    shorter = _scheduled(seed, asked)
    longer = schedule(seed, replace(asked, rounds=asked.rounds + more))
    assert longer[: asked.rounds] == shorter


@given(st.integers(0, 1 << 31), askings())
def test_as_many_as_asked_and_nothing_that_was_not(seed: int, asked: Asked) -> None:
    found = _scheduled(seed, asked)
    assert [i.number for i in found] == list(range(asked.rounds))
    for i in found:
        assert i.component in asked.components
        assert i.fault in asked.faults
        assert i.fault in asked.possible[i.component]
        assert i.moment in asked.moments
        assert i.moment.step is None or asked.aimed
        assert i.count <= asked.executors
        assert 0 <= i.choice < 1
        # Somebody starts brokers and servers again, after a while.
        assert (i.duration_s > 0) == (i.fault.lasts or i.component in (BROKER, SERVER))


@given(st.integers(0, 1 << 31), askings())
def test_every_combination_comes_before_any_comes_again(seed: int, asked: Asked) -> None:
    kinds = combinations(asked)
    assume(kinds)
    many = Asked(**{**vars(asked), "rounds": 4 * len(kinds)})
    counts: Counter[Combination] = Counter()
    for i in schedule(seed, many):
        counts[_kind(i)] += 1
        # One that has to make room for an aimed fault may be needed more often.
        if counts[_kind(i)] > 1 and not _kind(i).opens:
            assert set(counts) == set(kinds)
            break
    assert set(counts) <= set(kinds)


@given(st.integers(0, 1 << 31), askings())
def test_a_fault_in_anothers_recovery_has_one_to_follow(seed: int, asked: Asked) -> None:
    found = _scheduled(seed, asked)
    for before, i in zip((None, *found), found, strict=False):
        if not follows(i.moment):
            continue
        assert before is not None
        if i.moment is not Moment.RECOVERY:
            assert _kind(before).opens
        if i.moment is Moment.RESTORING:
            assert before.component == EXECUTOR


@given(st.integers(0, 1 << 31), askings())
def test_groups_hold_the_schedule_in_order(seed: int, asked: Asked) -> None:
    found = _scheduled(seed, asked)
    cut = groups(found)
    assert [i for group in cut for i in group] == list(found)
    assert all(not follows(group[0].moment) for group in cut)
    assert all(follows(i.moment) for group in cut for i in group[1:])


def test_a_short_schedule_takes_from_everything() -> None:
    possible = {c: frozenset(Fault) for c in (DRIVER, EXECUTOR, BROKER)}
    asked = Asked(tuple(possible), tuple(Fault), tuple(Moment), possible, rounds=24)
    for seed in range(20):
        found = schedule(seed, asked)
        assert {i.component for i in found} == set(possible)
        assert {i.fault for i in found} == set(Fault)
        assert len({i.moment for i in found}) >= len(Moment) - 2


def test_by_default_a_run_soon_has_what_few_combinations_have() -> None:
    of_topics = frozenset({Fault.ADD_PARTITION, Fault.RECREATE_TOPIC})
    possible = {
        DRIVER: frozenset({Fault.KILL, Fault.DELETE, Fault.PAUSE, Fault.SECOND_DRIVER}),
        EXECUTOR: frozenset(Fault)
        - {
            Fault.CUT_OFF,
            Fault.SECOND_DRIVER,
            Fault.DAMAGE_SNAPSHOT,
            Fault.RESCALE,
            Fault.EMPTY_STORES,
            *of_topics,
        },
        BROKER: frozenset({Fault.KILL, Fault.CUT_OFF}),
        TOPIC: of_topics,
    }
    asked = Asked(tuple(possible), tuple(Fault), tuple(Moment), possible, rounds=40)
    new = {Fault.SECOND_DRIVER, *of_topics, Fault.OLD_VOLUME, Fault.SWAP_VOLUMES}
    for seed in range(20):
        found = schedule(seed, asked)
        assert new <= {i.fault for i in found[:20]}, "they are not left to the end"
        assert sum(i.component == TOPIC for i in found) <= 4, "topics do not grow without end"


@given(st.integers(0, 1 << 31), askings())
def test_what_waits_for_commits_waits_for_no_other_fault(seed: int, asked: Asked) -> None:
    for i in _scheduled(seed, asked):
        if i.fault in (Fault.OLD_VOLUME, Fault.RECREATE_TOPIC):
            assert i.moment is Moment.RANDOM
        if i.fault is Fault.SWAP_VOLUMES:
            assert i.moment.step is None
        if i.fault is Fault.SECOND_DRIVER:
            assert i.duration_s > 0


@pytest.mark.parametrize("moment", [Moment.RECOVERY, Moment.OPENED, Moment.RESTORING])
def test_a_moment_that_needs_another_fault_is_refused_alone(moment: Moment) -> None:
    possible = {EXECUTOR: frozenset(Fault)}
    with pytest.raises(Refused, match="ask for the moment random"):
        schedule(1, Asked((EXECUTOR,), (Fault.KILL,), (moment,), possible, rounds=3))


def test_several_executors_are_hit_at_once_where_there_are_several() -> None:
    def counts(executors: int) -> set[int]:
        possible = {EXECUTOR: frozenset(Fault)}
        asked = Asked((EXECUTOR,), (Fault.KILL,), (Moment.RANDOM,), possible, 2, executors)
        return {i.count for i in schedule(1, asked)}

    assert counts(1) == {1}
    assert counts(2) == {1, 2}
