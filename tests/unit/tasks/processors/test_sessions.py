"""Sessions: their bounds, what they leave behind when they merge, lateness and final results."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdfast.tasks.processors.sessions.plan import (
    key_range,
    session_state_keys,
    split_session,
)
from holdfast.types.statements.topology import Emit, Window, WindowKind
from tests.support.jobs.grouped_rows import Change, Grouped, query_of


def _window(grace_ms: int = 100, retention_ms: int | None = None) -> Window:
    kept = 10 + grace_ms if retention_ms is None else retention_ms
    return Window(WindowKind.SESSION, 10, 10, grace_ms, kept)


def _state_keys(key: bytes, bounds: list[tuple[int, int]]) -> list[bytes]:
    starts, ends = (np.array(each, np.int64) for each in zip(*bounds, strict=True))
    return session_state_keys(pa.array([key] * len(bounds), pa.binary()), starts, ends)


def _short(told: list[Change]) -> list[tuple[str, tuple[int, int] | None, list[int] | None]]:
    return [(key, bounds, None if value is None else value[2]) for key, bounds, value, _ in told]


def test_a_record_extends_the_session_it_is_near() -> None:
    grouped = Grouped(query_of(_window()))
    told = grouped.feed([("a", 1, 0), ("a", 2, 10), ("a", 3, 21)])
    assert told == [
        ("a", (0, 0), [1, 1, [1]], 0),
        ("a", (0, 0), None, 0),
        ("a", (0, 10), [2, 3, [1, 2]], 10),  # the gap itself is still near
        ("a", (21, 21), [1, 3, [3]], 21),
    ]
    assert grouped.order == [101, 102, 102, 103]


def test_a_record_between_two_sessions_merges_them() -> None:
    grouped = Grouped(query_of(_window()))
    grouped.feed([("a", 1, 0), ("b", 9, 0), ("a", 2, 18)])
    told = grouped.feed([("a", 3, 9)])
    assert _short(told) == [
        ("a", (0, 0), None),
        ("a", (18, 18), None),
        ("a", (0, 18), [1, 2, 3]),
    ]
    assert [split_session(k)[1:] for k in sorted(grouped.rows)] == [(0, 18), (0, 0)]


def test_a_record_inside_a_session_replaces_it() -> None:
    grouped = Grouped(query_of(_window()))
    grouped.feed([("a", 1, 0), ("a", 2, 8)])
    assert _short(grouped.feed([("a", 3, 4)])) == [
        ("a", (0, 8), None),
        ("a", (0, 8), [1, 2, 3]),
    ]


def test_a_session_of_one_moment_is_changed_in_place() -> None:
    grouped = Grouped(query_of(_window()))
    assert _short(grouped.feed([("a", 1, 5), ("a", 2, 5)])) == [
        ("a", (5, 5), [1]),
        ("a", (5, 5), [1, 2]),
    ]


def test_a_batch_tells_what_it_comes_to() -> None:
    grouped = Grouped(query_of(_window(), Emit.BATCH))
    assert _short(grouped.feed([("a", 1, 0), ("a", 2, 8), ("a", 3, 30)])) == [
        ("a", (0, 8), [1, 2]),
        ("a", (30, 30), [3]),
    ]
    told = grouped.feed([("a", 4, 16), ("a", 5, 24), ("b", 6, 7)])
    assert sorted(_short(told), key=str) == [
        ("a", (0, 30), [1, 2, 3, 4, 5]),
        ("a", (0, 8), None),
        ("a", (30, 30), None),
        ("b", (7, 7), [6]),
    ]


def test_a_session_that_comes_to_the_same_bounds_is_only_changed() -> None:
    grouped = Grouped(query_of(_window(), Emit.BATCH))
    grouped.feed([("a", 1, 0), ("a", 2, 8)])
    assert _short(grouped.feed([("a", 3, 4)])) == [("a", (0, 8), [1, 2, 3])]


def test_batches_count_what_closed_before_them_as_late() -> None:
    grouped = Grouped(query_of(_window(grace_ms=5), Emit.BATCH))
    grouped.feed([("a", 1, 0), ("a", 2, 12), ("b", 3, 30)])
    told = grouped.feed([("a", 4, 14), ("c", 5, 14), ("c", 6, 15), ("d", 7, 90), ("d", 8, 40)])
    assert _short(told) == [("c", (14, 15), [5, 6]), ("d", (90, 90), [7]), ("d", (40, 40), [8])]
    assert grouped.dropped_late == 1  # 14 < 30 - 10 - 5, and the 12 near it is out of retention


def test_having_leaves_tombstones_of_sessions_it_hides_again() -> None:
    grouped = Grouped(query_of(_window(), Emit.BATCH, having='"__a1" > 10'))
    assert grouped.feed([("a", 5, 0), ("b", 11, 0)]) != []
    assert _short(grouped.feed([("b", -5, 0), ("a", 6, 4)])) == [
        ("b", (0, 0), None),
        ("a", (0, 4), [5, 6]),
    ]


def test_a_record_is_late_when_no_session_it_is_in_is_open() -> None:
    grouped = Grouped(query_of(_window(grace_ms=5)))
    grouped.feed([("a", 1, 0), ("b", 2, 30)])
    assert _short(grouped.feed([("a", 3, 14), ("a", 4, 15)])) == [("a", (15, 15), [4])]
    assert grouped.dropped_late == 1


def test_a_late_record_leaves_the_session_that_it_is_near_as_it_is() -> None:
    for emit in (Emit.RECORD, Emit.BATCH):
        grouped = Grouped(query_of(_window(retention_ms=1_000), emit))
        grouped.feed([("a", 1, 0)])
        grouped.feed([("b", 2, 500)])
        assert grouped.feed([("a", 3, 5)]) == []
        assert grouped.dropped_late == 1
        assert [split_session(k)[1:] for k in sorted(grouped.rows)] == [(0, 0), (500, 500)]


def test_a_session_out_of_retention_is_not_found() -> None:
    short = Grouped(query_of(_window(grace_ms=5)))
    long = Grouped(query_of(_window(grace_ms=5, retention_ms=1000)))
    for grouped in (short, long):
        grouped.feed([("a", 1, 10), ("b", 2, 30)])
    assert _short(short.feed([("a", 3, 16)])) == [("a", (16, 16), [3])]  # 10 < 30 - 15 + 1
    assert _short(long.feed([("a", 3, 16)])) == [("a", (10, 10), None), ("a", (10, 16), [1, 3])]


def test_one_that_comes_again_as_retention_ends_is_not_counted_twice() -> None:
    for emit in (Emit.RECORD, Emit.BATCH):
        grouped = Grouped(query_of(_window(grace_ms=5), emit))  # asserts what was created
        grouped.feed([("a", 1, 0)])
        grouped.feed([("b", 2, 15)])
        assert grouped.feed([("a", 3, 0)]) == [("a", (0, 0), [1, 3, [3]], 0)]


def test_final_results_come_once_a_session_takes_no_more() -> None:
    grouped = Grouped(query_of(_window(grace_ms=5), Emit.FINAL))
    assert grouped.feed([("a", 1, 0), ("b", 2, 3), ("a", 3, 8), ("c", 4, 18)]) == []
    assert grouped.feed([("c", 5, 19)]) == [("b", (3, 3), [1, 2, [2]], 3)]
    told = grouped.feed([("c", 6, 24), ("b", 7, 24)])
    assert told == [("a", (0, 8), [2, 4, [1, 3]], 8)]
    assert grouped.order == [106]
    assert grouped.feed([("c", 7, 25)]) == []


def test_having_hides_sessions() -> None:
    grouped = Grouped(query_of(_window(), having='"__a0" > 1'))
    assert _short(grouped.feed([("a", 1, 0), ("a", 2, 4), ("a", 3, 40)])) == [("a", (0, 4), [1, 2])]


def test_keys_that_start_alike_are_told_apart() -> None:
    grouped = Grouped(query_of(_window()))
    grouped.feed([("a", 1, 0), ("ab", 2, 0), ("", 3, 0)])
    assert _short(grouped.feed([("a", 4, 1)]))[-1] == ("a", (0, 1), [1, 4])
    assert [split_session(key) for key in _state_keys(b"ab", [(-5, 7)])] == [(b"ab", -5, 7)]


def test_a_keys_sessions_are_stored_by_their_ends() -> None:
    bounds = [(-90, -50), (-9, 4), (3, 12), (40, 70)]
    rows = sorted(name for key in (b"a", b"aa", b"b") for name in _state_keys(key, bounds))

    def found(*asked: int) -> list[tuple[bytes, int, int]]:
        start, end = key_range(b"a", *asked)
        return [split_session(row) for row in rows if start <= row < end]

    assert found() == [(b"a", *each) for each in bounds]
    assert found(-50) == found()
    assert found(-49) == [(b"a", *each) for each in bounds[1:]]
    assert found(12) == [(b"a", *each) for each in bounds[2:]]
    assert found(71) == []
