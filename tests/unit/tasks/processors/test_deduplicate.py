"""A stream without its duplicates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.types.columns.schema import STRING, Column
from holdfast.types.statements.topology import DeduplicateStep, Format, Query, Sink
from tests.support.jobs.row_runner import Row, RowRunner, Sent, source_input


def _runner(within_ms: int = 10) -> RowRunner:
    each = source_input("S")
    sink = Sink("O", "STREAM", "o", (Column("ID", STRING),), (Column("S", STRING),), Format.KAFKA)
    return RowRunner(Query("o", "", each.source, None, DeduplicateStep(each, within_ms), sink))


def _texts(sent: list[Sent]) -> list[str | None]:
    return [s.value and s.value["S"] for s in sent]


def test_the_first_of_a_key_passes_and_the_next_when_the_window_is_over() -> None:
    runner = _runner()
    rows = [Row(0, "a", str(at), at) for at in (20, 25, 29, 30, 31, 21, 40)]
    assert _texts(runner.send(*rows, Row(0, "b", "other", 41))) == ["20", "30", "40", "other"]


def test_an_older_record_is_a_duplicate_of_a_newer_one_too() -> None:
    runner = _runner()
    assert _texts(runner.send(Row(0, "a", "first", 20), Row(0, "a", "older", 11))) == ["first"]
    assert _texts(runner.send(Row(0, "b", "", 18), Row(0, "a", "far", 12))) == [""]


def test_a_record_that_cannot_be_told_from_a_duplicate_is_late() -> None:
    runner = _runner()
    assert _texts(runner.send(Row(0, "a", "new", 20), Row(0, "b", "late", 10))) == ["new"]
    assert runner.dropped_late == 1


def test_a_record_without_key_is_dropped_and_one_without_value_is_a_record() -> None:
    runner = _runner()
    sent = runner.send(Row(0, None, "x", 1), Row(0, "a", None, 2), Row(0, "a", "y", 3))
    assert _texts(sent) == [None]
    assert runner.dropped_null_key == 1


def test_times_leave_the_store_after_twice_the_window() -> None:
    runner = _runner()
    runner.send(*(Row(0, "a", "x", at) for at in range(0, 100, 10)))
    assert runner.store.rows == 3  # 70, 80, 90


@given(
    rows=st.lists(
        st.builds(
            Row,
            st.just(0),
            st.sampled_from(["a", "aa"]),
            st.sampled_from(["x", "y"]),
            st.integers(0, 60),
        ),
        max_size=30,
    ),
    at=st.lists(st.integers(0, 100), max_size=4),
)
def test_it_is_what_a_list_says_however_batches_are_cut(rows: list[Row], at: list[int]) -> None:
    expected: list[Row] = []
    now = 0
    for row in rows:
        now = max(now, row.time)
        near = any(e.key == row.key and abs(e.time - row.time) < 10 for e in expected)
        if row.time > now - 10 and not near:
            expected.append(row)
    sent = _runner().send_split(rows, at)
    assert [(s.key, s.value["S"], s.time) for s in sent] == [
        (row.key, row.text, row.time) for row in expected
    ]
