"""Aggregations record by record: changes, lateness, HAVING, undoing and final results."""

from __future__ import annotations

from dataclasses import replace

from holdfast.types.statements.topology import Emit, Window, WindowKind
from tests.support.jobs.grouped_rows import Grouped, query_of

TUMBLING = Window(WindowKind.TUMBLING, 10, 10, grace_ms=5, retention_ms=15)
HOPPING = Window(WindowKind.HOPPING, 10, 5, grace_ms=0, retention_ms=10)


def test_every_record_is_a_change_in_the_order_of_arrival() -> None:
    grouped = Grouped(query_of())
    told = grouped.feed([("a", 1, 7), ("b", 2, 3), (None, 9, 9), ("a", 3, 5)])
    assert told == [
        ("a", None, [1, 1, [1]], 7),
        ("b", None, [1, 2, [2]], 3),
        ("a", None, [2, 4, [1, 3]], 7),  # the newest time that the row has seen
    ]
    assert grouped.order == [101, 102, 104]
    assert grouped.dropped_null_key == 1
    assert grouped.feed([("a", 5, 6)]) == [("a", None, [3, 9, [1, 3, 5]], 7)]


def test_a_record_without_key_does_not_move_stream_time() -> None:
    grouped = Grouped(query_of(TUMBLING))
    grouped.feed([("a", 1, 3), (None, 1, 1000), ("a", 2, 4)])
    assert grouped.stream_time == 4
    assert grouped.dropped_late == 0


def test_each_record_sees_the_stream_time_that_it_finds() -> None:
    grouped = Grouped(query_of(TUMBLING))
    told = grouped.feed([("a", 1, 3), ("a", 2, 14), ("a", 3, 9), ("b", 4, 15), ("a", 5, 9)])
    assert [(bounds, value) for _, bounds, value, _ in told] == [
        ((0, 10), [1, 1, [1]]),
        ((10, 20), [1, 2, [2]]),
        ((0, 10), [2, 4, [1, 3]]),  # 14 < 10 + 5
        ((10, 20), [1, 4, [4]]),
    ]  # the last came when stream time was 15, and its window had closed
    assert grouped.dropped_late == 1


def test_the_windows_of_one_record_come_by_their_start() -> None:
    grouped = Grouped(query_of(HOPPING))
    told = grouped.feed([("a", 1, 7), ("a", 2, 11)])
    assert [bounds for _, bounds, _, _ in told] == [(0, 10), (5, 15), (5, 15), (10, 20)]
    assert grouped.order == [101, 101, 102, 102]


def test_having_leaves_a_tombstone_only_for_what_was_there() -> None:
    grouped = Grouped(query_of(having='"__a1" > 10'))
    assert grouped.feed([("a", 5, 0), ("a", -1, 1)]) == []
    told = grouped.feed([("a", 20, 2), ("b", 11, 3), ("a", -30, 4), ("a", -1, 5)])
    assert [(key, value) for key, _, value, _ in told] == [
        ("a", [3, 24, [5, -1, 20]]),
        ("b", [1, 11, [11]]),
        ("a", None),
    ]


def test_a_tables_old_row_is_taken_back_first() -> None:
    grouped = Grouped(query_of(table=True))
    assert grouped.change("g", None, 4) == [("g", None, [1, 4, [4]], 0)]
    assert grouped.change("g", None, 7) == [("g", None, [2, 11, [4, 7]], 0)]
    assert grouped.change("g", 4, 5) == [("g", None, [2, 12, [7, 5]], 0)]
    assert grouped.change("g", 7, None) == [("g", None, [1, 5, [5]], 0)]
    assert grouped.change("g", 5, None) == [("g", None, [0, 0, []], 0)]


def test_batches_over_a_table_tell_the_last_change_only() -> None:
    grouped = Grouped(query_of(emit=Emit.BATCH, table=True))
    assert grouped.change("g", None, 4) == [("g", None, [1, 4, [4]], 0)]
    assert grouped.change("g", 4, 6) == [("g", None, [1, 6, [6]], 0)]


def test_a_window_is_told_once_when_it_closes() -> None:
    grouped = Grouped(query_of(TUMBLING, Emit.FINAL))
    assert grouped.feed([("a", 1, 3), ("b", 2, 4), ("a", 3, 14)]) == []
    told = grouped.feed([("a", 4, 8), ("a", 5, 15), ("a", 6, 9), ("a", 7, 16)])
    assert told == [("a", (0, 10), [2, 5, [1, 4]], 8), ("b", (0, 10), [1, 2, [2]], 4)]
    assert grouped.order == [105, 105]
    assert grouped.dropped_late == 1
    assert grouped.feed([("c", 8, 24)]) == []
    assert grouped.feed([("c", 8, 25)]) == [("a", (10, 20), [3, 15, [3, 5, 7]], 16)]


def test_windows_close_in_the_order_of_the_records_that_close_them() -> None:
    grouped = Grouped(query_of(Window(WindowKind.TUMBLING, 10, 10, 0, 100), Emit.FINAL))
    told = grouped.feed([("b", 1, 1), ("a", 2, 2), ("z", 3, 11), ("y", 4, 35), ("x", 5, 50)])
    assert [(key, bounds) for key, bounds, _, _ in told] == [
        ("a", (0, 10)),
        ("b", (0, 10)),
        ("z", (10, 20)),
        ("y", (30, 40)),
    ]
    assert grouped.order == [103, 103, 104, 105]


def test_every_window_is_told_however_far_stream_time_jumps() -> None:
    grouped = Grouped(query_of(TUMBLING, Emit.FINAL))
    told = grouped.feed([("a", 1, 3), ("a", 2, 14), ("b", 3, 26)])
    assert [bounds for _, bounds, _, _ in told] == [(0, 10), (10, 20)]
    assert [bounds for _, bounds, _, _ in grouped.feed([("c", 4, 1 << 40)])] == [(20, 30)]


def test_by_kafka_streams_rule_a_window_out_of_retention_has_no_result() -> None:
    window = replace(TUMBLING, final_within_retention=True)
    grouped = Grouped(query_of(window, Emit.FINAL))
    told = grouped.feed([("a", 1, 3), ("a", 2, 14), ("b", 3, 26)])
    assert [bounds for _, bounds, _, _ in told] == [(10, 20)]  # 0 < 20 - 15


def test_final_results_pass_having_or_are_not_told() -> None:
    grouped = Grouped(query_of(TUMBLING, Emit.FINAL, having='"__a0" > 1'))
    told = grouped.feed([("a", 1, 3), ("b", 2, 4), ("a", 3, 5), ("c", 4, 15)])
    assert told == [("a", (0, 10), [2, 4, [1, 3]], 5)]
