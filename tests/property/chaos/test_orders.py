"""Joins and lookups: results common to all orders occur in each, and no order gives others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.judge.recompute.lookups import found_in_any_order, found_in_order
from holdfast.judge.recompute.meetings import Meeting, Side, in_any_order, in_order
from holdfast.judge.recompute.relations import Joined
from holdfast.judge.statement.statement import Within

KINDS = ("INNER", "LEFT", "RIGHT", "FULL")
# Side, key (none now and then), time, whether it is a tombstone.
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["a", "b", None]),
        st.integers(0, 60),
        st.sampled_from([False, False, False, True]),
    ),
    max_size=14,
)
WITHIN = st.builds(Within, st.integers(0, 10), st.integers(0, 10), st.none() | st.integers(0, 12))
_Event = tuple[int, str | None, int, bool]


def _sides(events: Sequence[_Event]) -> tuple[Side, Side]:
    found = []
    for side in (0, 1):
        mine = [e for e in events if e[0] == side]
        keys = [None if key is None else (key,) for _, key, _, _ in mine]
        times, dead = [e[2] for e in mine], [e[3] for e in mine]
        found.append(Side(keys, times, dead, [True] * len(mine), [(0,)] * len(mine)))
    return found[0], found[1]


def _order(events: Sequence[_Event]) -> list[tuple[int, int, int]]:
    """As they are listed, which is one order of many."""
    count = [0, 0]
    order = []
    for side, *_ in events:
        order.append((0, side, count[side]))
        count[side] += 1
    return order


def _between(known: Joined, unknown: Joined) -> None:
    made = Counter(zip(known.left, known.right, known.times, strict=True))
    every: Counter[object] = Counter()
    possible: Counter[object] = Counter()
    for left, right, time, sure in zip(
        unknown.left, unknown.right, unknown.times, unknown.sure, strict=True
    ):
        possible[left, right, time] += 1
        every[left, right, time] += sure
    assert every <= made
    assert made <= possible
    assert unknown.count in (None, made.total())


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@given(events=EVENTS, within=WITHIN)
def test_joined_streams(
    kind: str,
    apart: bool,
    events: list[_Event],
    within: Within,
) -> None:
    rules, sides = Meeting.of(kind, within), _sides(events)
    known = in_order(rules, sides, _order(events))
    _between(known, in_any_order(rules, sides, apart=apart, why=""))


@pytest.mark.parametrize("outer", [True, False])
@given(events=EVENTS)
def test_looked_up_rows(outer: bool, events: list[_Event]) -> None:
    sides = _sides(events)
    known = found_in_order(sides, _order(events), outer=outer, history_ms=None)
    _between(known, found_in_any_order(sides, outer=outer, why=""))
