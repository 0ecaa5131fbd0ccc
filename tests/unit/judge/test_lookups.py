"""What a stream's record finds in a table, and how tables join, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.judge.recompute.lookups import found_in_any_order, found_in_order, tables_joined
from holdfast.judge.recompute.meetings import Side
from holdfast.judge.recompute.relations import Joined

Event = tuple[str, str | None, int, bool]  # side S or T, key, time, deleted


def _sides(events: Sequence[Event]) -> tuple[Side, Side]:
    found = []
    for side in "ST":
        mine = [e for e in events if e[0] == side]
        keys = [None if key is None else (key,) for _, key, _, _ in mine]
        times, dead = [e[2] for e in mine], [e[3] for e in mine]
        found.append(Side(keys, times, dead, [True] * len(mine), [(0,)] * len(mine)))
    return found[0], found[1]


def looked_up(
    *events: Event, outer: bool = False, history_ms: int | None = None
) -> list[tuple[int | None, int | None]]:
    order, count = [], {"S": 0, "T": 0}
    for side, *_ in events:
        order.append((0, "ST".index(side), count[side]))
        count[side] += 1
    return _rows(found_in_order(_sides(events), order, outer=outer, history_ms=history_ms))


def _rows(found: Joined) -> list[tuple[int | None, int | None]]:
    return list(zip(found.left, found.right, strict=True))


def stream(key: str | None, time: int = 0) -> Event:
    return ("S", key, time, False)


def table(key: str, time: int = 0, *, deleted: bool = False) -> Event:
    return ("T", key, time, deleted)


def test_a_record_finds_what_is_there_when_it_comes() -> None:
    events = [stream("k"), table("k"), stream("k"), table("k"), stream("k")]
    assert looked_up(*events) == [(1, 0), (2, 1)]
    assert looked_up(*events, outer=True) == [(0, None), (1, 0), (2, 1)]


def test_a_deleted_row_is_not_found_and_a_missing_key_finds_nothing() -> None:
    events = [table("k"), table("k", deleted=True), stream("k"), stream(None)]
    assert looked_up(*events) == []
    assert looked_up(*events, outer=True) == [(0, None), (1, None)]


@pytest.mark.parametrize(("time", "found"), [(0, None), (5, 0), (9, 0), (10, 1), (99, 1)])
def test_a_versioned_table_is_asked_for_the_row_of_the_record_s_time(
    time: int, found: int | None
) -> None:
    events = [table("k", 5), table("k", 10), stream("k", time)]
    expected = [] if found is None else [(0, found)]
    assert looked_up(*events, history_ms=50) == expected


def test_history_reaches_back_from_the_key_s_newest_row() -> None:
    rows = [table("k", 0), table("k", 100)]
    assert looked_up(*rows, stream("k", 50), history_ms=50) == [(0, 0)]
    assert looked_up(*rows, stream("k", 49), history_ms=50) == []
    late = [table("k", 100), table("k", 49), stream("k", 60)]  # a change that comes too late
    assert looked_up(*late, history_ms=50) == []


def test_without_the_order_any_row_of_the_key_may_have_been_found() -> None:
    sides = _sides([stream("k"), stream("x"), table("k"), table("k", deleted=True), table("k")])
    found = found_in_any_order(sides, outer=True, why="nobody knows")
    results = dict(zip(_rows(found), found.sure, strict=True))
    assert results == {(0, None): False, (0, 0): False, (0, 2): False, (1, None): True}
    assert found.count == 2  # each record of the stream once, whatever it finds
    assert "nobody knows" in found.doubt
    assert found_in_any_order(sides, outer=False, why="").count is None


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("INNER", [(1, 0)]),
        ("LEFT", [(0, None), (1, 0)]),
        ("RIGHT", [(1, 0), (None, 1)]),
        ("FULL", [(0, None), (1, 0), (None, 1)]),
    ],
)
def test_tables_join_by_key(kind: str, rows: list[tuple[int | None, int | None]]) -> None:
    assert _rows(tables_joined([("a",), ("b",)], [("b",), ("c",)], kind)) == rows


def test_several_rows_may_point_to_one_and_some_to_none() -> None:
    pointing = [("x",), ("x",), None, ("y",)]
    assert _rows(tables_joined(pointing, [("x",)], "INNER")) == [(0, 0), (1, 0)]
    assert _rows(tables_joined(pointing, [("x",)], "LEFT"))[2:] == [(2, None), (3, None)]
