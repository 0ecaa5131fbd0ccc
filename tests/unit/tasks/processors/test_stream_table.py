"""A stream that looks its keys up in a table, as it is or as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.types.statements.topology import JoinForm, JoinKind
from tests.support.jobs.row_runner import Row, RowRunner, Sent, join_query


def _runner(kind: JoinKind, history_ms: int | None = None) -> RowRunner:
    return RowRunner(join_query(JoinForm.STREAM_TABLE, kind, history_ms=history_ms))


def _values(sent: list[Sent]) -> list[tuple[str | None, str | None]]:
    return [(s.value["L"], s.value["R"]) for s in sent]


ROWS = (
    Row(0, "a", "before", 9),
    Row(1, "a", "r1", 20),
    Row(0, "a", "during", 5),
    Row(1, "a", None, 21),
    Row(0, "a", "after", 7),
)


def test_a_record_finds_the_row_that_is_there_when_it_comes() -> None:
    assert _values(_runner(JoinKind.INNER).send(*ROWS)) == [("during", "r1")]
    sent = _runner(JoinKind.LEFT).send(*ROWS)
    assert _values(sent) == [("before", None), ("during", "r1"), ("after", None)]
    assert [s.time for s in sent] == [9, 5, 7]


def test_a_stream_record_without_key_stays_only_in_a_left_join() -> None:
    rows = (Row(0, None, "l"), Row(1, None, "r"), Row(0, "a", None))
    inner, left = _runner(JoinKind.INNER), _runner(JoinKind.LEFT)
    assert inner.send(*rows) == []
    assert inner.dropped_null_key == 2
    assert [(s.key, s.value) for s in left.send(*rows)] == [(None, {"L": "l", "R": None})]
    assert left.dropped_null_key == 1


def test_a_versioned_table_is_asked_as_of_the_records_time() -> None:
    runner = _runner(JoinKind.LEFT, history_ms=100)
    runner.send(Row(1, "a", "v10", 10), Row(1, "a", "v30", 30), Row(1, "a", None, 50))
    runner.send(Row(1, "a", "v20", 20))
    asked = [Row(0, "a", str(at), at) for at in (5, 10, 19, 20, 29, 30, 49, 50, 70)]
    found = ["v10", "v10", "v20", "v20", "v30", "v30"]
    assert [r for _, r in _values(runner.send(*asked))] == [None, *found, None, None]


def test_versions_older_than_the_history_are_forgotten_but_the_one_it_begins_with() -> None:
    runner = _runner(JoinKind.LEFT, history_ms=100)
    runner.send(Row(1, "a", "v10", 10), Row(1, "a", "v50", 50), Row(1, "a", "v200", 200))
    asked = (Row(0, "a", "x", 99), Row(0, "a", "y", 100), Row(0, "a", "z", 250))
    assert _values(runner.send(*asked)) == [("x", None), ("y", "v50"), ("z", "v200")]


records = st.lists(
    st.builds(
        Row,
        st.integers(0, 1),
        st.sampled_from(["a", "b", None]),
        st.sampled_from(["x", "y", "z", None]),
        st.integers(0, 60),
    ),
    max_size=30,
)
kinds = st.sampled_from([JoinKind.INNER, JoinKind.LEFT])


@given(
    kind=kinds,
    history=st.sampled_from([None, 1000]),  # longer than the times differ
    rows=records,
    at=st.lists(st.integers(0, 100), max_size=4),
)
def test_any_split_into_batches_gives_what_lists_give(
    kind: JoinKind, history: int | None, rows: list[Row], at: list[int]
) -> None:
    expected = []
    for n, row in enumerate(rows):
        if row.side == 1 or row.text is None:
            continue
        found = _lookup(rows[:n], row, as_of=history is not None)
        if found is not None or kind is JoinKind.LEFT:
            expected.append((row.key, row.text, found))
    sent = _runner(kind, history).send_split(rows, at)
    if kind is JoinKind.INNER:
        expected = [e for e in expected if e[0] is not None]
    assert [(s.key, s.value["L"], s.value["R"]) for s in sent] == expected


def _lookup(before: list[Row], row: Row, *, as_of: bool) -> str | None:
    table = [r for r in before if r.side == 1 and r.key == row.key and r.key is not None]
    if as_of:
        table = sorted((r for r in table if r.time <= row.time), key=lambda r: r.time)
    return table[-1].text if table else None


@given(rows=records, at=st.lists(st.integers(0, 100), max_size=4))
def test_what_a_short_history_keeps_does_not_depend_on_batches(
    rows: list[Row], at: list[int]
) -> None:
    one = _runner(JoinKind.LEFT, history_ms=15)
    single = [sent for row in rows for sent in one.send(row)]
    assert _runner(JoinKind.LEFT, history_ms=15).send_split(rows, at) == single
