"""Sessions, final results and duplicates worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast.judge.recompute.closings import (
    Windowed,
    once_within,
    sessions_in_batches,
    sessions_in_order,
    windows_in_order,
)
from holdfast.judge.statement.statement import WindowClause

SESSION = WindowClause(10, 10, "SESSION", 5, 15)
TUMBLING = WindowClause(10, 10, "TUMBLING", 5, 15)


def found(made: Windowed) -> dict[tuple[int, int], list[int]]:
    """Rows by their window."""
    windows: dict[tuple[int, int], list[int]] = {}
    for row, start, end in zip(made.rows, made.starts, made.ends, strict=True):
        windows.setdefault((start, end), []).append(row)
    return windows


def sessions(
    *times: int, final: bool = False, window: WindowClause = SESSION
) -> tuple[dict[tuple[int, int], list[int]], int]:
    keys, order = [("k",)] * len(times), [(0, row) for row in range(len(times))]
    made = sessions_in_order(window, keys, times, order, final=final)
    return found(made), made.late


def in_batches(*batches: Sequence[int]) -> tuple[dict[tuple[int, int], list[int]], int]:
    times = [time for batch in batches for time in batch]
    rows = iter(range(len(times)))
    cut = [(0, [next(rows) for _ in batch]) for batch in batches]
    made = sessions_in_batches(SESSION, [("k",)] * len(times), times, cut)
    return found(made), made.late


def test_a_session_takes_what_is_no_more_than_the_gap_away() -> None:
    assert sessions(0, 10, 21) == ({(0, 10): [0, 1], (21, 21): [2]}, 0)


def test_a_record_between_two_sessions_makes_them_one() -> None:
    assert sessions(0, 12, 6) == ({(0, 12): [0, 1, 2]}, 0)
    assert in_batches([0, 12], [6]) == ({(0, 12): [0, 2, 1]}, 0)


def test_a_session_that_would_end_before_its_grace_is_too_late() -> None:
    assert sessions(50, 35) == ({(50, 50): [0], (35, 35): [1]}, 0)
    assert sessions(50, 34) == ({(50, 50): [0]}, 1)


def test_of_a_batch_late_is_what_was_closed_before_it() -> None:
    assert in_batches([50, 34]) == ({(34, 34): [1], (50, 50): [0]}, 0)
    assert in_batches([50], [34]) == ({(50, 50): [0]}, 1)
    # The batch's own records carry a late one over to the session that is open.
    assert in_batches([50], [41, 34]) == ({(34, 50): [2, 1, 0]}, 0)


def test_keys_have_sessions_of_their_own() -> None:
    keys, order = [("a",), ("b",)], [(0, 0), (1, 1)]
    made = sessions_in_order(SESSION, keys, [0, 1], order, final=False)
    assert found(made) == {(0, 0): [0], (1, 1): [1]}


def test_a_final_session_is_written_when_it_has_closed() -> None:
    assert sessions(0, 4, 19, final=True) == ({}, 0)
    assert sessions(0, 4, 20, final=True) == ({(0, 4): [0, 1]}, 0)


def finals(
    *times: int, window: WindowClause = TUMBLING
) -> tuple[dict[tuple[int, int], list[int]], int]:
    keys, order = [("k",)] * len(times), [(0, row) for row in range(len(times))]
    made = windows_in_order(window, keys, times, order)
    return found(made), made.late


def test_a_final_window_is_written_when_its_grace_is_over() -> None:
    assert finals(1, 14, 9) == ({}, 0)
    assert finals(1, 14, 9, 15) == ({(0, 10): [0, 2]}, 0)


def test_what_comes_for_a_closed_window_is_late() -> None:
    assert finals(1, 15, 9) == ({(0, 10): [0]}, 1)


def test_a_window_that_stream_time_jumps_far_over_has_its_result() -> None:
    assert finals(1, 30) == ({(0, 10): [0]}, 0)


def test_by_kafka_streams_rule_it_has_none_unless_it_was_retained() -> None:
    retained = WindowClause(10, 10, "TUMBLING", 5, 15, final_within_retention=True)
    assert finals(1, 30, window=retained) == ({}, 0)
    longer = replace(retained, retention_ms=100)
    assert finals(1, 30, window=longer) == ({(0, 10): [0]}, 0)


def test_a_record_is_in_each_hopping_window_that_holds_it() -> None:
    hopping = WindowClause(10, 5, "HOPPING", 0, 100)
    assert finals(7, 40, window=hopping)[0] == {(0, 10): [0], (5, 15): [0]}


@pytest.mark.parametrize(
    ("times", "passing", "late"),
    [
        ([0, 9, 10], [0, 2], 0),
        ([20, 11, 30], [0, 2], 0),
        ([20, 10], [0], 1),
        ([20, 12, 31, 22], [0, 2], 0),
    ],
)
def test_a_key_passes_once_within_any_ten_ms(
    times: list[int], passing: list[int], late: int
) -> None:
    order = [(0, row) for row in range(len(times))]
    assert once_within(10, [("k",)] * len(times), times, order) == (passing, late)


def test_records_without_a_key_do_not_pass_and_time_is_each_state_partition_s_own() -> None:
    keys = [("a",), None, ("b",)]
    assert once_within(10, keys, [100, 100, 0], [(0, 0), (0, 1), (1, 2)]) == ([0, 2], 0)
