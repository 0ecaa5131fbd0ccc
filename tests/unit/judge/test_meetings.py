"""WITHIN and GRACE PERIOD worked out by hand: with the order known, and whatever it was."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.judge.recompute.meetings import Meeting, Side, in_any_order, in_order
from holdfast.judge.recompute.relations import Joined
from holdfast.judge.statement.statement import Within

Event = tuple[str, str | None, int]  # side L or R, key, time

TEN = Within(10, 10)
GRACE = Within(10, 10, 5)


def _sides(events: Sequence[Event]) -> tuple[Side, Side]:
    found = []
    for side in "LR":
        mine = [(key, time) for s, key, time in events if s == side]
        count = len(mine)
        keys = [None if key is None else (key,) for key, _ in mine]
        times, homes = [time for _, time in mine], [(0,)] * count
        found.append(Side(keys, times, [False] * count, [True] * count, homes))
    return found[0], found[1]


def joined(kind: str, within: Within, *events: Event) -> Joined:
    """The events in this order."""
    order, count = [], {"L": 0, "R": 0}
    for side, _, _ in events:
        order.append((0, "LR".index(side), count[side]))
        count[side] += 1
    return in_order(Meeting.of(kind, within), _sides(events), order)


def rows(found: Joined) -> list[tuple[int | None, int | None]]:
    return list(zip(found.left, found.right, strict=True))


def unordered(kind: str, within: Within, *events: Event) -> tuple[set[object], set[object]]:
    """(what every order makes, what only some make)."""
    made = in_any_order(Meeting.of(kind, within), _sides(events), apart=True, why="nobody knows")
    results = list(zip(rows(made), made.sure, strict=True))
    return {r for r, sure in results if sure}, {r for r, sure in results if not sure}


@pytest.mark.parametrize(
    ("kind", "meeting"), [("INNER", range(90, 131)), ("RIGHT", range(70, 111))]
)
def test_a_window_reaches_back_and_on_from_a_record_of_one_side(kind: str, meeting: range) -> None:
    """From the left one; a RIGHT join counts from the right one."""
    for right_ms in (69, 70, 89, 90, 110, 111, 130, 131):
        events = [("L", "k", 100), ("R", "k", right_ms)]
        for order in (events, events[::-1]):
            met = (0, 0) in rows(joined(kind, Within(10, 30), *order))
            assert met == (right_ms in meeting), (right_ms, order)


def test_keys_must_be_equal_and_there() -> None:
    found = joined("FULL", TEN, ("L", "a", 1), ("R", "b", 1), ("L", None, 2), ("R", None, 2))
    assert rows(found) == [(0, None), (None, 0), (1, None), (None, 1)]
    assert rows(joined("INNER", TEN, ("L", None, 1), ("R", None, 1))) == []


def test_a_result_has_the_time_of_the_later_one() -> None:
    assert list(joined("INNER", TEN, ("L", "k", 5), ("R", "k", 9)).times) == [9]


def test_without_grace_a_missing_partner_is_told_at_once() -> None:
    found = joined("LEFT", TEN, ("L", "k", 5), ("R", "k", 9))
    assert rows(found) == [(0, None), (0, 0)]


def test_with_grace_it_is_told_when_its_wait_is_over() -> None:
    """The left record at 5 waits for right ones up to 15, and 5 ms of grace more."""
    waits = [("L", "k", 5), ("L", "other", 20)]
    assert rows(joined("LEFT", GRACE, *waits)) == []
    assert rows(joined("LEFT", GRACE, *waits, ("L", "other", 21))) == [(0, None)]
    assert rows(joined("LEFT", GRACE, *waits, ("R", "k", 15), ("L", "x", 90))) == [
        (0, 0), (1, None)]  # fmt: skip


def test_what_comes_when_its_window_is_over_is_told_at_once() -> None:
    assert rows(joined("LEFT", GRACE, ("R", "x", 50), ("L", "k", 39))) == [(0, None)]
    assert rows(joined("LEFT", GRACE, ("R", "x", 50), ("L", "k", 40))) == []


def test_a_record_is_kept_for_window_and_grace_behind_its_side() -> None:
    """Kept are 25 ms behind the side's newest."""
    assert rows(joined("INNER", GRACE, ("L", "k", 0), ("L", "x", 24), ("R", "k", 0))) == [(0, 0)]
    assert rows(joined("INNER", GRACE, ("L", "k", 0), ("L", "x", 25), ("R", "k", 0))) == []


def test_every_order_makes_a_pair_of_records_that_are_kept() -> None:
    every, some = unordered("INNER", TEN, ("L", "k", 0), ("R", "k", 3), ("R", "k", 90))
    assert every == {(0, 0)}
    assert some == set()


def test_a_pair_that_may_come_too_late_is_made_by_some_orders() -> None:
    every, some = unordered("INNER", GRACE, ("L", "k", 0), ("R", "k", 3), ("L", "x", 30))
    assert (every, some) == (set(), {(0, 0)})


def test_no_partner_at_all_is_told_in_every_order_and_before_a_partner_in_some() -> None:
    every, some = unordered("LEFT", TEN, ("L", "k", 0), ("L", "x", 0), ("R", "k", 3))
    assert every == {(1, None), (0, 0)}
    assert some == {(0, None)}


def test_with_grace_nothing_is_told_of_a_window_that_no_order_closes() -> None:
    every, some = unordered("LEFT", GRACE, ("L", "k", 0), ("L", "x", 9))
    assert (every, some) == (set(), set())
    every, some = unordered("LEFT", GRACE, ("L", "k", 0), ("L", "x", 16))
    assert (every, some) == ({(0, None)}, set())
    every, some = unordered("LEFT", GRACE, ("L", "k", 0), ("L", "x", 11))
    assert (every, some) == (set(), {(0, None)})


def test_why_it_is_not_determined_is_told() -> None:
    rules, sides = Meeting.of("LEFT", TEN), _sides([("L", "k", 0), ("R", "k", 3)])
    doubt = in_any_order(rules, sides, apart=True, why="nobody knows").doubt
    assert doubt == "1 joined rows depend on the order in which records came: nobody knows"
