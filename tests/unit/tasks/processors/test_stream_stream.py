"""Two streams within a window: who meets whom, who stays alone and when that is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.state.segments import SEGMENT_MS
from holdfast.types.statements.topology import JoinForm, JoinKind, JoinWindow
from tests.support.jobs.row_runner import Row, RowRunner, Sent, join_query

TEN = JoinWindow(10, 10)
CLOSING = JoinWindow(10, 10, grace_ms=5)
_DAY_MS = 86_400_000

Result = tuple[str | None, str | None, int]


def _runner(kind: JoinKind, window: JoinWindow = TEN, condition: str | None = None) -> RowRunner:
    query = join_query(JoinForm.STREAM_STREAM, kind, window=window, condition=condition)
    return RowRunner(query)


def _wider(window: JoinWindow, times: int) -> JoinWindow:
    """The same window that many times as long."""
    grace_ms = None if window.grace_ms is None else window.grace_ms * times
    return JoinWindow(window.before_ms * times, window.after_ms * times, grace_ms)


def _values(sent: list[Sent]) -> list[Result]:
    return [(s.value["L"], s.value["R"], s.time) for s in sent]


def test_records_of_a_key_meet_within_the_window_in_the_order_of_time() -> None:
    runner = _runner(JoinKind.INNER)
    sent = runner.send(
        Row(0, "a", "l20", 20),
        Row(0, "a", "l5", 5),
        Row(0, "b", "other", 12),
        Row(1, "a", "r15", 15),
        Row(1, "a", "r31", 31),
    )
    assert _values(sent) == [("l5", "r15", 15), ("l20", "r15", 20)]
    assert [s.cause for s in sent] == [3, 3]


def test_before_and_after_differ_by_side() -> None:
    rows = (Row(0, "a", "l", 50), Row(1, "a", "early", 45), Row(1, "a", "late", 53))
    assert _values(_runner(JoinKind.INNER, JoinWindow(5, 2)).send(*rows)) == [("l", "early", 50)]
    assert _values(_runner(JoinKind.INNER, JoinWindow(2, 5)).send(*rows)) == [("l", "late", 53)]


def test_without_grace_period_a_row_that_stays_is_emitted_at_once() -> None:
    rows = (Row(0, "a", "l", 0), Row(1, "b", "r", 1), Row(1, "a", "r2", 2))
    assert _values(_runner(JoinKind.LEFT).send(*rows)) == [("l", None, 0), ("l", "r2", 2)]
    assert _values(_runner(JoinKind.RIGHT).send(*rows)) == [(None, "r", 1), ("l", "r2", 2)]
    assert _values(_runner(JoinKind.FULL).send(*rows)) == [
        ("l", None, 0),
        (None, "r", 1),
        ("l", "r2", 2),
    ]


def test_with_grace_period_it_waits_until_the_window_has_closed() -> None:
    runner = _runner(JoinKind.FULL, CLOSING)
    assert runner.send(Row(0, "a", "l", 0), Row(1, "b", "r", 3), Row(1, "c", "r", 15)) == []
    assert _values(runner.send(Row(1, "d", "x", 16))) == [("l", None, 0)]
    assert _values(runner.send(Row(0, "d", "y", 19))) == [(None, "r", 3), ("y", "x", 19)]


def test_what_has_found_a_partner_does_not_wait() -> None:
    runner = _runner(JoinKind.LEFT, CLOSING)
    sent = runner.send(Row(0, "a", "l", 0)) + runner.send(Row(1, "a", "r", 10))
    assert _values(sent + runner.send(Row(0, "b", "z", 100))) == [("l", "r", 10)]


def test_a_record_whose_window_has_closed_already_does_not_wait() -> None:
    runner = _runner(JoinKind.LEFT, CLOSING)
    assert _values(runner.send(Row(1, "x", "r", 100), Row(0, "a", "l", 20))) == [("l", None, 20)]


def test_of_equal_times_the_right_row_is_told_first() -> None:
    runner = _runner(JoinKind.FULL, CLOSING)
    runner.send(Row(0, "a", "l", 0), Row(1, "b", "r", 0))
    assert _values(runner.send(Row(0, "z", "z", 50))) == [(None, "r", 0), ("l", None, 0)]


def test_rows_behind_their_own_sides_newest_are_not_seen() -> None:
    runner = _runner(JoinKind.INNER, JoinWindow(60, 60, grace_ms=60))
    sent = runner.send(
        Row(0, "a", "new", 330),
        Row(0, "b", "old", 150),
        Row(1, "b", "r", 150),
        Row(0, "c", "seen", 151),
        Row(1, "c", "r", 151),
    )
    assert _values(sent) == [("seen", "r", 151)]
    assert runner.dropped_late == 1


def test_times_of_one_batch_may_be_ages_apart() -> None:
    far = 1 << 50
    rows = [Row(side, "a", f"{side}-{time}", time) for time in (5, far) for side in (0, 1)]
    assert _values(_runner(JoinKind.INNER).send(*rows)) == [
        ("0-5", "1-5", 5),
        (f"0-{far}", f"1-{far}", far),
    ]


def test_rows_leave_the_store_after_window_and_grace() -> None:
    runner = _runner(JoinKind.INNER, _wider(CLOSING, SEGMENT_MS))
    times = range(0, 30 * SEGMENT_MS, SEGMENT_MS // 2)
    runner.send(*(Row(side, "a", "l", time) for side in (0, 1) for time in times))
    runner.send(Row(0, "a", "l", 40 * SEGMENT_MS))
    runner.send(Row(0, "a", "l", 40 * SEGMENT_MS))
    # Whole segments, each by its side's time; the clock.  Of the right one the newest is 29.5.
    assert runner.store.rows == (30 - 15) * 2 + 2 + (30 - 4) * 2 + 1


def test_of_many_rows_that_are_too_old_a_batch_removes_some() -> None:
    runner = _runner(JoinKind.INNER, _wider(CLOSING, SEGMENT_MS))
    for _ in range(7):
        runner.send(*[Row(0, "a", "l", 0)] * 5_000)
    left = []
    for _ in range(4):
        runner.send(Row(0, "b", "new", 100 * SEGMENT_MS))
        left.append(runner.store.rows)
    assert left == [15_002, 3, 4, 5]  # those it found too old when it came, and the clock


def test_a_side_that_is_behind_keeps_its_rows() -> None:
    runner = _runner(JoinKind.INNER, JoinWindow(9, 0, 0))
    runner.send(Row(1, "a", "r", 10))
    runner.send(Row(0, "b", "new", 60))
    assert _values(runner.send(Row(0, "a", "l", 10))) == [("l", "r", 10)]


def test_without_grace_period_a_record_may_be_a_day_late() -> None:
    runner = _runner(JoinKind.INNER)
    runner.send(Row(0, "a", "too late", 5), Row(0, "a", "in time", 6))
    runner.send(Row(0, "b", "new", 5 + 20 + _DAY_MS))
    assert _values(runner.send(Row(1, "a", "r", 7))) == [("in time", "r", 7)]


@pytest.mark.parametrize("kind", list(JoinKind))
def test_a_record_without_key_meets_none_and_stays_where_its_side_does(kind: JoinKind) -> None:
    runner = _runner(kind)
    sent = runner.send(Row(0, None, "l", 1), Row(1, None, "r", 2), Row(0, "a", None, 3))
    left = [("l", None, 1)] if kind in (JoinKind.LEFT, JoinKind.FULL) else []
    right = [(None, "r", 2)] if kind in (JoinKind.RIGHT, JoinKind.FULL) else []
    assert _values(sent) == left + right
    assert all(s.key is None for s in sent)


def test_where_is_asked_of_the_pair() -> None:
    runner = _runner(JoinKind.LEFT, condition='"L" = "R"')
    sent = runner.send(Row(0, "a", "x", 0), Row(1, "a", "y", 1), Row(1, "a", "x", 2))
    assert _values(sent) == [("x", "x", 2)]


records = st.lists(
    st.builds(
        Row,
        st.integers(0, 1),
        st.sampled_from(["a", "b", "bb", None]),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 80),
    ),
    max_size=30,
)
cuts = st.lists(st.integers(0, 100), max_size=4)
kinds = st.sampled_from(list(JoinKind))
windows = st.sampled_from(
    [TEN, CLOSING, JoinWindow(3, 9, 4), JoinWindow(9, 0, 0), JoinWindow(0, 7)]
)


@given(kind=kinds, window=windows, rows=records, at=cuts)
def test_any_split_into_batches_gives_what_single_records_give(
    kind: JoinKind, window: JoinWindow, rows: list[Row], at: list[int]
) -> None:
    one = _runner(kind, window)
    single = [sent for row in rows for sent in one.send(row)]
    assert _runner(kind, window).send_split(rows, at) == single


@given(kind=kinds, window=windows, rows=records)
def test_results_are_those_of_lists(kind: JoinKind, window: JoinWindow, rows: list[Row]) -> None:
    copies = [replace(row) for row in rows]  # the model tells equal rows apart
    sent = _runner(kind, window).send(*copies)
    found = [(s.key, s.value["L"], s.value["R"], s.time) for s in sent]
    assert found == _Model(kind, window).results(copies)


@given(
    kind=kinds, window=windows, rows=records, at=cuts, longer=st.sampled_from([1, SEGMENT_MS // 8])
)
def test_any_split_into_batches_leaves_what_single_records_leave(
    kind: JoinKind, window: JoinWindow, rows: list[Row], at: list[int], longer: int
) -> None:
    window, rows = _wider(window, longer), [replace(r, time=r.time * longer) for r in rows]
    one, split = _runner(kind, window), _runner(kind, window)
    for row in rows:
        one.send(row)
    split.send_split(rows, at)
    for runner in (one, split):
        runner.send()  # a batch's own rows leave at the end of the next one
    assert list(split.store.scan()) == list(one.store.scan())
    assert split.dropped_late == one.dropped_late
    assert split.dropped_null_key == one.dropped_null_key


class _Model:
    """The rules over plain lists."""

    def __init__(self, kind: JoinKind, window: JoinWindow) -> None:
        self._swap = kind is JoinKind.RIGHT
        self._outer = (
            kind in (JoinKind.LEFT, JoinKind.FULL),
            kind in (JoinKind.RIGHT, JoinKind.FULL),
        )
        self._window = window
        grace = _DAY_MS if window.grace_ms is None else window.grace_ms
        self._kept = window.before_ms + window.after_ms + grace
        self._rows: tuple[list[Row], list[Row]] = ([], [])
        self._waiting: list[Row] = []
        self._out: list[tuple[str | None, str | None, str | None, int]] = []

    def results(self, rows: list[Row]) -> list[tuple[str | None, str | None, str | None, int]]:
        now = -1
        for row in rows:
            now = max(now, row.time)
            if row.text is not None and row.key is None and self._outer[row.side]:
                self._alone(row)
            elif row.text is not None and row.key is not None:
                self._one(row, now)
        return self._out

    def _reach(self, side: int) -> tuple[int, int]:
        pair = self._window.before_ms, self._window.after_ms
        return pair if (side == 1) == self._swap else (pair[1], pair[0])

    def _closes(self, row: Row) -> int:
        return row.time + self._reach(row.side)[1] + (self._window.grace_ms or 0)

    def _one(self, row: Row, now: int) -> None:
        if row.time == now:
            due = [w for w in self._waiting if self._closes(w) < now]
            rank = 1 if self._swap else 0
            for each in sorted(due, key=lambda w: (w.time, w.side == rank, w.key)):
                self._waiting = [w for w in self._waiting if w is not each]
                self._alone(each)
        before, after = self._reach(row.side)
        others = self._rows[1 - row.side]
        newest = max((o.time for o in others), default=0)
        found = [
            o
            for o in sorted(others, key=lambda o: o.time)
            if o.key == row.key
            and row.time - before <= o.time <= row.time + after
            and o.time > newest - self._kept
        ]
        for other in found:
            self._waiting = [w for w in self._waiting if w is not other]
            pair = (row, other) if row.side == 0 else (other, row)
            self._out.append((row.key, pair[0].text, pair[1].text, max(row.time, other.time)))
        if not found and self._outer[row.side]:
            if self._window.grace_ms is None or row.time + after < now:
                self._alone(row)
            else:
                self._waiting.append(row)
        self._rows[row.side].append(row)

    def _alone(self, row: Row) -> None:
        texts = (row.text, None) if row.side == 0 else (None, row.text)
        self._out.append((row.key, *texts, row.time))
