"""The columns and functions that an expression names are those that DuckDB finds.

Over rows of just the columns that it names DuckDB can evaluate it, without one of them it cannot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from holdfast.sql import compile_text
from holdfast.sql.expressions.engines import DUCKDB
from holdfast.sql.parse.text import Place
from holdfast.tasks.evaluate.outputs import engine
from holdfast.tasks.functions.in_duckdb import register
from holdfast.tasks.functions.names import calls_in
from holdfast.types.columns.schema import BIGINT, BOOLEAN, INTEGER, Column, SqlType
from holdfast.types.statements.expressions import Expression, in_duckdb
from holdfast.types.statements.topology import (
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOMBSTONE,
    AggregateStep,
    JoinStep,
    ProjectStep,
    Query,
)

Types = Mapping[str, SqlType]
_HERE = Path(__file__).parent
_TEXTS = [
    case["sql"]
    for case in json.loads((_HERE / "planned_fingerprints.json").read_text())
    if "sql" in case
]
_ADDED = {PARTITION: INTEGER, OFFSET: BIGINT, TIMESTAMP: BIGINT, TOMBSTONE: BOOLEAN}
_LITERAL = re.compile(r"'(?:[^']|'')*'")
Each = tuple[Expression, Types]


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    return [q for text in _TEXTS for q in compile_text(text, place=Place.TEST).queries]


def _over_records(query: Query) -> Iterator[Each]:
    for side, source in enumerate(query.sources):
        types = {c.name: c.type for c in source.readable} | _ADDED
        if isinstance(query.step, ProjectStep):
            types |= {e.name: e.expression.type.element or BIGINT for e in query.step.explode}
        yield from ((each, types) for each in query.over_records(side))


def _after_merge(query: Query) -> Iterator[Each]:
    step = query.step
    if isinstance(step, AggregateStep):
        types = {k.name: k.column.type for k in step.keys}
        types |= {call.name: call.type for call in step.aggregates}
        types |= {"WINDOWSTART": BIGINT, "WINDOWEND": BIGINT}
        made, last = step.outputs, step.having
    elif isinstance(step, JoinStep):
        types = {c.name: c.column.type for i in step.inputs for c in (*i.keys, *i.columns)}
        types["ROWTIME"] = BIGINT
        made, last = (*step.keys, *step.outputs), step.filter
    else:
        return
    yield from ((each.expression, types) for each in made)
    if last is not None:
        yield last, types


def _select(each: Expression, columns: list[Column]) -> str:
    made = (f"CAST(NULL AS {DUCKDB.type_name(c.type)}) AS {DUCKDB.quote(c.name)}" for c in columns)
    return f"SELECT {each.sql} AS c FROM (SELECT {', '.join(made) or '1 AS none'}) AS batch"


def _wrong(each: Expression, types: Types, evaluates: Any) -> Iterator[str]:
    columns = [Column(name, types[name]) for name in each.columns]
    if not evaluates(_select(each, columns)):
        yield f"more than {each.columns}: {each.sql}"
    for column in columns:
        if evaluates(_select(each, [c for c in columns if c is not column])):
            yield f"not {column.name}: {each.sql}"
    if not set(calls_in(_LITERAL.sub("''", each.sql))) <= set(each.functions):
        yield f"more calls than {each.functions}: {each.sql}"


def _as_named_in_duckdb(each: Expression, types: Types) -> Each:
    """The same, for a source's columns, whose names DuckDB may not tell apart."""
    names = {name: in_duckdb(name) for name in each.columns}
    columns = tuple(names.values())
    return replace(each, columns=columns), {names[n]: types[n] for n in names}


def test_duckdb_needs_the_columns_that_are_named(queries: list[Query]) -> None:
    before = [each for query in queries for each in _over_records(query)]
    after = [each for query in queries for each in _after_merge(query)]
    assert min(len(before), len(after)) > 100
    assert [e for e, _ in before + after if e.ref is not None and e.columns != (e.ref,)] == []
    connection = engine()
    register(connection, {name for each, _ in before + after for name in each.functions})

    def evaluates(select: str) -> bool:
        try:
            connection.execute(f"EXPLAIN {select}")
        except duckdb.BinderException:
            return False
        return True

    pairs = [_as_named_in_duckdb(*each) for each in before] + after
    distinct = {(e.sql, tuple((n, str(t[n])) for n in e.columns)): (e, t) for e, t in pairs}
    assert [wrong for e, t in distinct.values() for wrong in _wrong(e, t, evaluates)] == []


@pytest.mark.parametrize(
    ("expression", "columns", "ref", "deterministic"),
    [
        ("a", ("A",), "A", True),
        ("AS_VALUE(a)", ("A",), "A", True),
        ("ROWTIME", (TIMESTAMP,), TIMESTAMP, True),
        ("s->b", ("S",), None, True),
        ("TRANSFORM(l, x => x + a)", ("L", "A"), None, True),
        ("CASE WHEN a IS NULL THEN '`B` \"B\"' END", ("A",), None, True),
        ("STRUCT(b := a)", ("A",), None, True),
        ("1", (), None, True),
        ("CAST(a AS STRING) + UUID()", ("A",), None, False),
        ("TRANSFORM(l, x => RANDOM())", ("L",), None, False),
    ],
)
def test_an_expression_says_what_it_is(
    expression: str, columns: tuple[str, ...], ref: str | None, deterministic: bool
) -> None:
    query = compile_text(
        "CREATE STREAM t (k INT KEY, a INT, b STRING, l ARRAY<INT>, s STRUCT<b INT>) "
        "WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');\n"
        f"CREATE STREAM o AS SELECT k, {expression} AS c FROM t;"
    ).queries[0]
    assert isinstance(query.step, ProjectStep)
    made = query.step.outputs[0].expression
    assert (made.columns, made.ref, made.deterministic) == (columns, ref, deterministic)
