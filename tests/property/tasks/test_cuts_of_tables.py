"""The law of cuts for joins and for GROUP BY over a table, with doubles at which engines differ.

Keys are what their bytes are: 0.0 and -0.0 are two, and every NaN is one.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.sql.plan.topology import compile_text
from holdfast.tasks.evaluate.doubles import rank
from holdfast.types.columns.schema import DOUBLE, STRING, Base
from holdfast.types.statements.topology import SEQUENCE, TIMESTAMP, Query
from tests.support.jobs.cut_runner import CutRunner, cut, state_key
from tests.support.jobs.row_runner import Record, RowRunner, Sent

_TEXT = """
SET 'emit' = '{emit}';
CREATE TABLE l (id VARCHAR PRIMARY KEY, f DOUBLE, v DOUBLE)
  WITH (KAFKA_TOPIC = 'l', VALUE_FORMAT = 'JSON');
CREATE TABLE r (f DOUBLE PRIMARY KEY, w DOUBLE)
  WITH (KAFKA_TOPIC = 'r', KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON');
CREATE TABLE p (id VARCHAR PRIMARY KEY, w DOUBLE) WITH (KAFKA_TOPIC = 'p', VALUE_FORMAT = 'JSON');
CREATE STREAM a (id VARCHAR KEY, x DOUBLE) WITH (KAFKA_TOPIC = 'a', VALUE_FORMAT = 'JSON');
CREATE STREAM b (id VARCHAR KEY, y DOUBLE) WITH (KAFKA_TOPIC = 'b', VALUE_FORMAT = 'JSON');
CREATE TABLE inner_f AS SELECT l.id, l.v, r.w FROM l JOIN r ON l.f = r.f;
CREATE TABLE left_f AS SELECT l.id, l.v, r.w FROM l LEFT JOIN r ON l.f = r.f;
CREATE TABLE counted AS SELECT f, COUNT(*) AS n FROM l GROUP BY f;
CREATE TABLE both_tables AS SELECT ROWKEY AS id, l.v, p.w FROM l FULL OUTER JOIN p ON l.id = p.id;
CREATE TABLE some_rows AS SELECT l.id, l.v FROM l JOIN p ON l.id = p.id WHERE l.v <= p.w;
CREATE STREAM looked_up AS SELECT a.id, x, w FROM a LEFT JOIN p ON a.id = p.id;
CREATE STREAM met AS SELECT a.id, x, y
  FROM a LEFT JOIN b WITHIN 5 MILLISECONDS GRACE PERIOD 1 DAY ON a.id = b.id;
"""
DOUBLES = (None, math.nan, math.copysign(math.nan, -1.0), 0.0, -0.0, 1.0, math.inf)

_FOREIGN = st.sampled_from(DOUBLES)
_IDS = st.sampled_from(["a", "b"])
_CHANGES = st.lists(st.tuples(_IDS, _FOREIGN, st.sampled_from([0, 1, 2])), max_size=9)
_CUTS = st.sets(st.integers(1, 8), max_size=4)
_SIDED = st.lists(
    st.tuples(st.sampled_from([0, 1]), _IDS, _FOREIGN, st.integers(0, 30)), max_size=9
)


@cache
def _queries(emit: str) -> dict[str, Query]:
    return {q.id: q for q in compile_text(_TEXT.format(emit=emit)).queries}


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def _left(changes: list[tuple[str, float | None, int]]) -> list[Record]:
    """Records of `l`; a tombstone where the number is 0."""
    return [
        Record(0, id_.encode(), {"__FOREIGN_KEY": f, "L_ID": id_, "L_F": f, "L_V": 1.0 * n, "G0": f}
               if n else None, 0, cause)
        for cause, (id_, f, n) in enumerate(changes)
    ]  # fmt: skip


def _batches(runner: RowRunner, records: list[Record], cuts: set[int]) -> list[Sent]:
    return [sent for batch in cut(len(records), cuts) for sent in runner.process(records[batch])]


@given(_CHANGES, _CUTS)
def test_a_group_of_a_table_has_as_many_rows_as_the_table(
    changes: list[tuple[str, float | None, int]], cuts: set[int]
) -> None:
    records = _left(changes)
    told = _batches(RowRunner(_queries("batch")["ctas_counted_changes"]), records, cuts)
    rows = [
        {"G0": _number(orjson.loads(s.key)) if s.key else None, "HAS_OLD": s.value["HAS_OLD"],
         "HAS_NEW": s.value["HAS_NEW"], TIMESTAMP: s.time, SEQUENCE: n}
        for n, s in enumerate(told)
    ]  # fmt: skip
    counted = CutRunner(_queries("batch")["ctas_counted"]).run(rows, cuts, {0})
    last = {id_: (f, n) for id_, f, n in changes}
    left = [f for f, n in last.values() if n and f is not None]
    expected = Counter(state_key(f, DOUBLE) for f in left)
    sink = [(key, orjson.loads(value or b"")["N"]) for key, (value, _) in counted.sink.items()]
    assert sorted(n for _, n in sink if n) == sorted(expected.values())
    assert set(counted.rows) >= set(expected)
    assert sum(n for _, n in sink) == len(left)


class _Chain:
    """A foreign-key join's three queries, each reading what the one before has written."""

    def __init__(self, name: str) -> None:
        one, two, three = (_queries("batch")[f"ctas_{name}{n}"] for n in ("_1", "_2", ""))
        self._runners = RowRunner(one), RowRunner(two), RowRunner(three)

    def left(self, records: list[Record]) -> list[Sent]:
        return self._answered([self._told(s) for s in self._runners[0].process(records)])

    def right(self, records: list[Record]) -> list[Sent]:
        return self._answered(records)

    def _told(self, sent: Sent) -> Record:
        foreign = None if sent.key is None else _number(orjson.loads(sent.key))
        values = {name: _number_of(name, value) for name, value in sent.value.items()}
        return Record(0, state_key(foreign, DOUBLE), values, sent.time, sent.cause)

    def _answered(self, records: list[Record]) -> list[Sent]:
        sent = self._runners[1].process(records)
        answers = [
            Record(0, state_key(orjson.loads(s.key or "null"), STRING),
                   {n: _number_of(n, v) for n, v in s.value.items()}, s.time, s.cause)
            for s in sent
        ]  # fmt: skip
        return self._runners[2].process(answers)


def _number_of(name: str, value: Any) -> Any:
    if name == "__LEFT_KEY":
        return base64.b64decode(value)
    return _number(value) if name in ("L_F", "L_V", "V", "W", "R_W") else value


def _right(cause: int, foreign: float, number: float | None) -> Record:
    row = None if number is None else {"R_F": foreign, "R_W": number}
    return Record(1, state_key(foreign, DOUBLE), row, 0, cause)


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("l"), _IDS, _FOREIGN, st.sampled_from([0, 1, 2])),
        st.tuples(st.just("r"), st.just(""), _FOREIGN, st.sampled_from([0, 1, 2])),
    ),
    max_size=9,
)


_MOVED = [("r", "", 0.0, 1), ("l", "a", 0.0, 1), ("l", "a", -0.0, 1), ("r", "", 0.0, 2)]


@example("inner_f", _MOVED)
@example("left_f", _MOVED)
@given(st.sampled_from(["inner_f", "left_f"]), _STEPS)
def test_a_foreign_key_join_ends_in_the_join_of_both_tables(
    name: str, steps: Sequence[tuple[str, str, float | None, int]]
) -> None:
    chain, table = _Chain(name), dict[str | None, Any]()
    left: dict[str, tuple[float | None, int]] = {}
    right: dict[int, int] = {}
    for cause, (side, id_, foreign, n) in enumerate(steps):
        if side == "l":
            sent = chain.left([_with_cause(r, cause) for r in _left([(id_, foreign, n)])])
            left[id_] = foreign, n
        elif foreign is not None:
            sent = chain.right([_right(cause, foreign, float(n) if n else None)])
            right[rank(foreign)] = n
        else:
            continue
        table.update({s.key: s.value for s in sent})
    joined = {
        id_: {"L_V": float(n), "W": float(w) if w else None}
        for id_, (foreign, n) in left.items()
        if n
        for w in [0 if foreign is None else right.get(rank(foreign), 0)]
        if w or name == "left_f"
    }
    assert [list(v.values()) for _, v in _there(table)] == [
        list(v.values()) for _, v in sorted(joined.items())
    ]


def _with_cause(record: Record, cause: int) -> Record:
    return Record(record.side, record.key, record.values, record.time, cause)


def _there(table: dict[str | None, Any]) -> list[tuple[str, Any]]:
    """The rows of a table, by key."""
    rows = ((str(key), value) for key, value in table.items() if value is not None)
    return sorted(rows, key=lambda row: row[0])


_JOINS = ("ctas_both_tables", "ctas_some_rows", "csas_looked_up", "csas_met")


@example(
    "ctas_some_rows",
    "batch",
    [(0, "a", math.nan, 0), (1, "a", math.nan, 0), (0, "a", None, 0)],
    {2},
)
@given(st.sampled_from(_JOINS), st.sampled_from(["batch", "record"]), _SIDED, _CUTS)
def test_no_join_depends_on_cuts(
    name: str, emit: str, rows: list[tuple[int, str, float | None, int]], cuts: set[int]
) -> None:
    query = _queries(emit)[name]
    records = [
        Record(side, id_.encode(), _carried(query, side, id_, value), time, cause)
        for cause, (side, id_, value, time) in enumerate(rows)
    ]
    some, whole = RowRunner(query), RowRunner(query)
    told, once = _batches(some, records, cuts), _batches(whole, records, set())
    assert sorted(some.store.scan()) == sorted(whole.store.scan())
    if name.startswith("csas"):
        assert told == once
    # A row that comes and goes within a batch is not told at all, and told and deleted else.
    assert _there({s.key: s.value for s in told}) == _there({s.key: s.value for s in once})


def _carried(query: Query, side: int, id_: str, value: float | None) -> dict[str, Any] | None:
    """Columns of that side; a table's row is gone where there is no value."""
    each = query.inputs[side]
    if value is None and each.source.kind == "TABLE":
        return None
    columns = (c.column for c in each.columns)
    return {c.name: id_ if c.type.base is Base.STRING else value for c in columns}
