"""A foreign-key join's three queries: what left rows tell, who answers, and what is overtaken."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.types.columns.schema import STRING, Column
from holdfast.types.statements.topology import (
    GONE,
    INSTRUCTION,
    LEFT_KEY,
    VERSION,
    Format,
    Input,
    JoinForm,
    JoinKind,
    JoinStep,
    Query,
    ResolveStep,
    Sink,
    Source,
    SubscribeStep,
)
from tests.support.jobs.row_runner import Record, RowRunner, Sent
from tests.support.values.expressions import condition as filter_of
from tests.support.values.expressions import duckdb_column, source_column

ID, FK, NAME, RIGHT = (Column(name, STRING) for name in ("ID", "FK", "NAME", "R"))
TOLD = (ID, NAME, LEFT_KEY, VERSION, INSTRUCTION)


def _input(name: str, kind: str, key: Column, columns: tuple[Column, ...]) -> Input:
    source = Source(name, kind, name.lower(), (key,), columns)
    carried = tuple(source_column(c) for c in columns)
    return Input(source, (source_column(key),), carried)


def _sink(kind: str, key: Column, values: tuple[Column, ...]) -> Sink:
    return Sink("O", kind, "o", (key,), values, Format.KAFKA)


class Chain:
    """The three queries, each reading all that the one before has written so far."""

    def __init__(self, kind: JoinKind, condition: str | None = None) -> None:
        left = _input("LEFT", "TABLE", ID, (FK, ID, NAME))
        told = _input("TOLD", "STREAM", FK, TOLD)
        answers = _input("ANSWERS", "STREAM", ID, (NAME, RIGHT, VERSION, GONE))
        outputs = tuple(duckdb_column(c) for c in (NAME, RIGHT))
        join = JoinStep(
            JoinForm.FOREIGN_KEY,
            kind,
            told,
            _input("RIGHT", "TABLE", Column("RK", STRING), (RIGHT,)),
            (duckdb_column(ID),),
            outputs,
            filter=filter_of(condition),
        )
        resolve = ResolveStep(answers, filtered=condition is not None)
        answer_sink = _sink("STREAM", ID, (NAME, RIGHT, VERSION, GONE))
        self.subscribe = self._runner(SubscribeStep(left, kind), _sink("STREAM", FK, TOLD))
        self.join = self._runner(join, answer_sink)
        self.resolve = self._runner(resolve, _sink("TABLE", ID, (NAME, RIGHT)))
        self._count = 0

    def _runner(self, step: SubscribeStep | JoinStep | ResolveStep, sink: Sink) -> RowRunner:
        return RowRunner(Query("q", "", step.inputs[0].source, None, step, sink))

    def left(self, key: str, foreign: str | None, name: str | None, time: int = 0) -> list[Sent]:
        """A left record; no name: a tombstone."""
        values = None if name is None else {"FK": foreign, "ID": key, "NAME": name}
        self._count += 1
        record = Record(0, key.encode(), values, time, self._count)
        return self.answer(self.told(self.subscribe.process([record])))

    def right(self, key: str, text: str | None, time: int = 0) -> list[Sent]:
        """A right record; no text: a tombstone."""
        self._count += 1
        values = None if text is None else {"R": text}
        return self.answer([Record(1, key.encode(), values, time, self._count)])

    def told(self, sent: list[Sent]) -> list[Record]:
        """The first query's output, as the second reads it."""
        return [Record(0, _bytes(s.key), _with_bytes(s.value), s.time, s.cause) for s in sent]

    def answer(self, records: list[Record]) -> list[Sent]:
        """The second query's answers through the third."""
        return self.resolve.process(self.answers(records))

    def answers(self, records: list[Record]) -> list[Record]:
        """The second query's output, as the third reads it."""
        sent = self.join.process(records)
        return [Record(0, _bytes(s.key), s.value, s.time, s.cause) for s in sent]


def _bytes(key: str | None) -> bytes | None:
    return None if key is None else key.encode()


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    return value | {LEFT_KEY.name: base64.b64decode(value[LEFT_KEY.name])}


def _results(sent: list[Sent]) -> list[tuple[str | None, Any]]:
    return [(s.key, s.value and (s.value["NAME"], s.value["R"])) for s in sent]


def test_an_inner_join_tells_changes_of_both_sides_and_tombstones_in_doubt() -> None:
    chain = Chain(JoinKind.INNER)
    assert chain.left("1", "x", "one") == []
    assert _results(chain.right("x", "rx")) == [("1", ("one", "rx"))]
    assert _results(chain.left("1", "y", "uno")) == [("1", None)]
    assert _results(chain.right("y", "ry")) == [("1", ("uno", "ry"))]
    assert _results(chain.left("1", "y", "eins")) == [("1", ("eins", "ry"))]
    assert _results(chain.right("y", None)) == [("1", None)]
    assert _results(chain.left("1", None, None)) == [("1", None)]
    assert chain.left("1", None, None) == []


def test_a_left_join_always_has_a_result_for_a_left_row() -> None:
    chain = Chain(JoinKind.LEFT)
    assert _results(chain.left("1", "x", "one")) == [("1", ("one", None))]
    assert _results(chain.right("x", "rx")) == [("1", ("one", "rx"))]
    assert _results(chain.left("1", None, "uno")) == [("1", ("uno", None))]
    assert chain.right("x", "rx2") == []
    assert _results(chain.left("1", "x", "eins")) == [("1", ("eins", "rx2"))]
    assert _results(chain.left("1", None, None)) == [("1", None)]
    assert chain.join.store.rows == 1  # the right row


def test_a_left_row_without_foreign_key_is_none_of_an_inner_join() -> None:
    chain = Chain(JoinKind.INNER)
    chain.right("x", "rx")
    assert chain.left("1", None, "one") == []
    assert _results(chain.left("1", "x", "one")) == [("1", ("one", "rx"))]
    assert _results(chain.left("1", None, "uno")) == [("1", None)]


def test_a_right_change_reaches_every_row_that_points_to_it_in_key_order() -> None:
    chain = Chain(JoinKind.INNER)
    for key in ("2", "10", "1"):
        chain.left(key, "x", "n" + key)
    chain.left("3", "xx", "other")
    sent = chain.right("x", "rx")
    assert [s.key for s in sent] == ["1", "10", "2"]
    assert len({s.cause for s in sent}) == 1


@pytest.mark.parametrize(("left", "right", "expected"), [(5, 9, 9), (9, 5, 9)])
def test_an_answer_is_as_new_as_the_newer_row(left: int, right: int, expected: int) -> None:
    chain = Chain(JoinKind.INNER)
    chain.right("x", "rx", right)
    assert [s.time for s in chain.left("1", "x", "one", left)] == [expected]
    assert [s.time for s in chain.right("x", "rx", 7)] == [7]


def test_an_overtaken_answer_is_dropped() -> None:
    chain = Chain(JoinKind.INNER)
    chain.right("x", "rx")
    chain.right("y", "ry")
    first = chain.told(chain.subscribe.process([_left_record("1", "x", 10)]))
    second = chain.told(chain.subscribe.process([_left_record("1", "y", 11)]))
    late = chain.answers(first)
    assert _results(chain.answer(second)) == [("1", ("n", "ry"))]
    assert chain.resolve.process(late) == []


def _left_record(key: str, foreign: str, cause: int) -> Record:
    return Record(0, key.encode(), {"FK": foreign, "ID": key, "NAME": "n"}, 0, cause)


def test_what_never_passed_where_leaves_no_tombstone() -> None:
    chain = Chain(JoinKind.INNER, condition="\"R\" = 'yes'")
    chain.left("1", "x", "one")
    assert chain.right("x", "no") == []
    assert _results(chain.right("x", "yes")) == [("1", ("one", "yes"))]
    assert _results(chain.right("x", "no")) == [("1", None)]
    assert chain.right("x", None) == []


steps = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from("12"),
        st.sampled_from(["1", "2", None]),
        st.sampled_from(["a", "b", None]),
    ),
    max_size=25,
)


@given(kind=st.sampled_from([JoinKind.INNER, JoinKind.LEFT]), changes=steps)
def test_it_ends_in_the_join_of_both_tables(
    kind: JoinKind, changes: list[tuple[bool, str, str | None, str | None]]
) -> None:
    chain = Chain(kind)
    left: dict[str, tuple[str | None, str]] = {}
    right: dict[str, str] = {}
    last: dict[str | None, Any] = {}
    for of_left, key, foreign, text in changes:
        sent = chain.left(key, foreign, text) if of_left else chain.right(key, text)
        last |= dict(_results(sent))
        if of_left and text is not None:
            left[key] = (foreign, text)
        elif text is not None:
            right[key] = text
        else:
            (left if of_left else right).pop(key, None)
    joined = {k: (name, right.get(f or "")) for k, (f, name) in left.items()}
    if kind is JoinKind.INNER:
        joined = {k: v for k, v in joined.items() if v[1] is not None}
    assert {k: v for k, v in last.items() if v is not None} == joined


@given(kind=st.sampled_from([JoinKind.INNER, JoinKind.LEFT]), changes=steps, cut=st.integers(0, 25))
def test_any_split_into_batches_gives_what_single_records_give(
    kind: JoinKind, changes: list[tuple[bool, str, str | None, str | None]], cut: int
) -> None:
    told = _all_told(Chain(kind), changes)
    single = Chain(kind)
    expected = [a for record in told for a in single.answers([record])]
    split = Chain(kind)
    assert split.answers(told[:cut]) + split.answers(told[cut:]) == expected


def _all_told(
    chain: Chain, changes: list[tuple[bool, str, str | None, str | None]]
) -> list[Record]:
    told = []
    for n, (of_left, key, foreign, text) in enumerate(changes):
        if not of_left:
            values = None if text is None else {"R": text}
            told.append(Record(1, key.encode(), values, n, n * 10))
            continue
        row = None if text is None else {"FK": foreign, "ID": key, "NAME": text}
        record = Record(0, key.encode(), row, n, n * 10)
        found = chain.told(chain.subscribe.process([record]))
        told += [Record(t.side, t.key, t.values, n, n * 10 + i) for i, t in enumerate(found)]
    return told
