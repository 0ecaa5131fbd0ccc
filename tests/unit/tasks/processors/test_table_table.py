"""Two tables: which changes are emitted, and what they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.types.statements.topology import Emit, JoinForm, JoinKind
from tests.support.jobs.row_runner import Row, RowRunner, Sent, join_query


def _runner(kind: JoinKind, emit: Emit = Emit.RECORD, condition: str | None = None) -> RowRunner:
    return RowRunner(join_query(JoinForm.TABLE_TABLE, kind, emit=emit, condition=condition))


def _values(sent: list[Sent]) -> list[tuple[str | None, str | None] | None]:
    return [None if s.value is None else (s.value["L"], s.value["R"]) for s in sent]


ROWS = (
    Row(0, "a", None),
    Row(0, "a", "l1", 5),
    Row(1, "a", "r1", 3),
    Row(1, "a", None, 8),
    Row(0, "a", None, 9),
    Row(1, "a", "r2", 10),
    Row(0, "a", None, 11),
)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinKind.INNER, [("l1", "r1"), None, None]),
        (JoinKind.LEFT, [("l1", None), ("l1", "r1"), ("l1", None), None, None]),
        (JoinKind.RIGHT, [("l1", "r1"), None, (None, "r2"), (None, "r2")]),
        (
            JoinKind.FULL,
            [("l1", None), ("l1", "r1"), ("l1", None), None, (None, "r2"), (None, "r2")],
        ),
    ],
)
def test_a_change_is_emitted_where_the_other_side_or_a_kept_one_has_a_row(
    kind: JoinKind, expected: list[tuple[str | None, str | None] | None]
) -> None:
    assert _values(_runner(kind).send(*ROWS)) == expected


def test_a_result_is_as_new_as_the_newer_row() -> None:
    sent = _runner(JoinKind.INNER).send(
        Row(0, "a", "l1", 5), Row(1, "a", "r1", 3), Row(0, "a", "l2", 2)
    )
    assert [(s.time, s.cause) for s in sent] == [(5, 1), (3, 2)]


def test_a_record_without_key_is_dropped() -> None:
    runner = _runner(JoinKind.FULL)
    assert runner.send(Row(0, None, "l1"), Row(1, None, "r1")) == []
    assert runner.dropped_null_key == 2


def test_what_never_passed_where_leaves_no_tombstone() -> None:
    runner = _runner(JoinKind.INNER, condition="\"R\" > 'm'")
    sent = runner.send(
        Row(0, "a", "l1"),
        Row(1, "a", "b"),
        Row(1, "a", None),
        Row(1, "a", "z"),
        Row(0, "a", "l2"),
        Row(1, "a", "c"),
        Row(0, "a", None),
    )
    assert _values(sent) == [("l1", "z"), ("l2", "z"), None]


def test_by_batch_only_the_last_change_of_a_key_is_emitted() -> None:
    runner = _runner(JoinKind.LEFT, Emit.BATCH)
    sent = runner.send(Row(0, "a", "l1"), Row(0, "b", "l2"), Row(1, "a", "r1"), Row(0, "b", None))
    assert {s.key: s.value for s in sent} == {"a": {"L": "l1", "R": "r1"}, "b": None}


records = st.lists(
    st.builds(
        Row,
        st.integers(0, 1),
        st.sampled_from(["a", "b", None]),
        st.sampled_from(["x", "y", "z", None]),
        st.integers(0, 50),
    ),
    max_size=25,
)
cuts = st.lists(st.integers(0, 100), max_size=4)
kinds = st.sampled_from(list(JoinKind))
conditions = st.sampled_from([None, "\"L\" > 'x'"])


@given(kind=kinds, rows=records, at=cuts, condition=conditions)
def test_any_split_into_batches_gives_what_single_records_give(
    kind: JoinKind, rows: list[Row], at: list[int], condition: str | None
) -> None:
    one = _runner(kind, condition=condition)
    single = [sent for row in rows for sent in one.send(row)]
    assert _runner(kind, condition=condition).send_split(rows, at) == single


@given(kind=kinds, rows=records, at=cuts, condition=conditions)
def test_both_ways_to_emit_end_in_the_join_of_both_tables(
    kind: JoinKind, rows: list[Row], at: list[int], condition: str | None
) -> None:
    tables: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for row in rows:
        if row.key is not None and row.text is not None:
            tables[row.side][row.key] = row.text
        elif row.key is not None:
            tables[row.side].pop(row.key, None)
    expected = _joined(kind, tables, condition)
    for emit in (Emit.RECORD, Emit.BATCH):
        sent = _runner(kind, emit, condition).send_split(rows, at)
        last = {s.key: s.value for s in sent}
        assert {k: v for k, v in last.items() if v is not None} == expected


def _joined(
    kind: JoinKind, tables: tuple[dict[str, str], dict[str, str]], condition: str | None
) -> dict[str, dict[str, str | None]]:
    left, right = tables
    keys = {
        JoinKind.INNER: left.keys() & right.keys(),
        JoinKind.LEFT: left.keys(),
        JoinKind.RIGHT: right.keys(),
        JoinKind.FULL: left.keys() | right.keys(),
    }[kind]
    passed = (k for k in keys if condition is None or left.get(k, "") > "x")
    return {k: {"L": left.get(k), "R": right.get(k)} for k in passed}
