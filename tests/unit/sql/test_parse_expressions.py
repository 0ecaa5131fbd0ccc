"""The grammar of expressions: what binds tighter, what is a literal, what is no expression."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text
from holdfast.sql.parse.clauses import Select
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import CreateAs
from holdfast.sql.parse.text import parse


def select(clauses: str) -> Select:
    (statement,) = parse(Script(f"CREATE STREAM o AS SELECT {clauses};"))
    assert isinstance(statement, CreateAs)
    return statement.select


def parsed(expression: str) -> exp.Expr:
    node = select(f"{expression} FROM s").items[0].expression
    assert node is not None
    return node


def shape(node: Any) -> str:
    """The tree with every operator's parentheses written out."""
    if isinstance(node, exp.Column):
        table = node.args.get("table")
        return f"{table.this}.{node.this.this}" if table else str(node.this.this)
    if isinstance(node, exp.Literal):
        return f"'{node.this}'" if node.is_string else str(node.this)
    if isinstance(node, exp.Boolean):
        return str(node.this)
    name = node.this if isinstance(node, exp.Anonymous) else type(node).__name__
    parts = [p for p in (node.args.get(k) for k in node.arg_types) if p is not None]
    flat = [x for p in parts for x in (p if isinstance(p, list) else [p])]
    texts = [shape(x) if isinstance(x, exp.Expr) else "" for x in flat]
    if isinstance(node, exp.Identifier):
        return str(node.this)
    return f"{name}({' '.join(t for t in texts if t)})"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a + b * c - d", "Sub(Add(a Mul(b c)) d)"),
        ("(a + b) * c", "Mul(Add(a b) c)"),
        ("- a * b", "Mul(Neg(a) b)"),
        ("a - -1", "Sub(a Neg(1))"),
        ("+ a", "a"),
        ("NOT a = b AND c OR d", "Or(And(Not(EQ(a b)) c) d)"),
        ("a OR b AND NOT c", "Or(a And(b Not(c)))"),
        ("a || b || 'x'", "DPipe(DPipe(a b) 'x')"),
        ("a + b || c", "DPipe(Add(a b) c)"),
        ("a != b", "NEQ(a b)"),
        ("a NOT BETWEEN 1 AND 2 + 3", "Not(Between(a 1 Add(2 3)))"),
        ("a NOT IN (1, b)", "Not(In(a 1 b))"),
        ("a LIKE 'x!%' ESCAPE '!'", "Escape(Like(a 'x!%') '!')"),
        ("a IS NOT NULL", "Not(Is(a Null()))"),
        ("a IS DISTINCT FROM b", "NullSafeNEQ(a b)"),
        ("a IS NOT DISTINCT FROM b", "NullSafeEQ(a b)"),
        ("s.a->b->`c d`[1]['k']", "Bracket(Bracket(Dot(Dot(s.a b) c d) 1) 'k')"),
        ("f(a)[-1]->b", "Dot(Bracket(f(a) Neg(1)) b)"),
        ("CASE WHEN a THEN 1 ELSE 2 END", "Case(If(a 1) 2)"),
        ("CASE a + 1 WHEN 2 THEN 'x' END", "Case(Add(a 1) If(2 'x'))"),
        ("ARRAY[1, a, ARRAY[]]", "Array(1 a Array())"),
        ("MAP('k' := 1, a := 2)", "MAP(PropertyEQ('k' 1) PropertyEQ(a 2))"),
        ("STRUCT(x := 1, `y z` := a)", "STRUCT(PropertyEQ(x 1) PropertyEQ(y z a))"),
        ("COUNT(*)", "COUNT(Star())"),
        ("TRANSFORM(a, x => x + 1)", "TRANSFORM(a Lambda(Add(x 1) x))"),
        ("REDUCE(a, 0, (s, x) => s + x)", "REDUCE(a 0 Lambda(Add(s x) s x))"),
        ("f((a), (b))", "f(a b)"),
        ("DATEADD(DAYS, 1, a)", "DATEADD(DAYS 1 a)"),
        ("REPLACE(key, id, type)", "REPLACE(key id type)"),
        ("'it''s'", "'it's'"),
        ("TRUE AND false", "And(True False)"),
        ("1e5", "1e5"),
        (".5", ".5"),
        ("1.", "1."),
        ('"a""b"', 'a"b'),
        ("1st", "1st"),
        ("x@y", "x@y"),
    ],
)
def test_trees(expression: str, expected: str) -> None:
    assert shape(parsed(expression)) == expected


def test_every_node_knows_its_place() -> None:
    text = "CREATE STREAM o AS SELECT (a + 1) * CAST(b AS INT) AS x FROM s;"
    script = Script(text)
    (statement,) = parse(script)
    assert isinstance(statement, CreateAs)
    node = statement.select.items[0].expression
    assert isinstance(node, exp.Mul)
    assert [script.excerpt(n) for n in (node, node.expression)] == [
        "(a + 1) * CAST(b AS INT)",
        "CAST(b AS INT)",
    ]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("a = b = c", 'expected FROM but found "="'),
        ("a.b.c", "a column is written name or source.name"),
        ("f(DISTINCT a)", "F takes no DISTINCT"),
        ("a IN ()", "expected an expression"),
        ("CASE ELSE 1 END", "reserved keyword"),
        ("CASE a ELSE 1 END", "CASE needs at least one WHEN"),
        ("DATE '2024-01-31'", "Unknown type: DATE"),
        ("a AT TIME ZONE 'UTC'", "use CONVERT_TZ"),
        ("CAST(a AS DECIMAL(2, 4))", "DECIMAL precision must be >= scale"),
        ("9223372036854775808", "Invalid numeric literal: 9223372036854775808"),
        ("1e999", "Number overflows DOUBLE: 1e999"),
        ("STRUCT('x' := 1)", "expected a field name"),
        ("a -> 'x'", "expected a field name after ->"),
        ("x => x", "expected FROM"),
        ("f(a ? b)", "a closing parenthesis is missing"),
        ("stream", '"stream" is a reserved keyword'),
    ],
)
def test_what_is_no_expression(expression: str, message: str) -> None:
    with pytest.raises(InvalidStatement) as caught:
        parsed(expression)
    assert message.lower() in str(caught.value).lower()


def test_the_least_bigint_is_a_literal() -> None:
    assert shape(parsed("-9223372036854775808")) == "Neg(9223372036854775808)"


def test_a_thousand_parentheses_are_refused_and_not_a_crash() -> None:
    with pytest.raises(InvalidStatement, match="too large to parse"):
        parsed("(" * 5000 + "1" + ")" * 5000)


def test_thousands_of_conditions_are_refused_and_not_a_crash() -> None:
    conditions = " OR ".join(f"a = {n}" for n in range(5000))
    with pytest.raises(InvalidStatement, match="too large to parse"):
        compile_text(
            "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"
            f"CREATE STREAM o AS SELECT a FROM s WHERE {conditions};"
        )


@pytest.mark.parametrize(
    ("clauses", "keys"),
    [
        ("GROUP BY a, b", 2),
        ("GROUP BY (a, b + 1)", 2),
        ("GROUP BY (a + 1) * 2, b", 2),
        ("GROUP BY (a IS NULL)", 1),
    ],
)
def test_grouping_lists(clauses: str, keys: int) -> None:
    assert len(select(f"COUNT(*) FROM s {clauses}").group_by) == keys


@pytest.mark.parametrize(
    "clauses", ["GROUP BY a AND b", "GROUP BY a, (b, c)", "PARTITION BY a = b"]
)
def test_keys_are_no_conditions(clauses: str) -> None:
    with pytest.raises(InvalidStatement, match="Syntax Error"):
        select(f"COUNT(*) FROM s {clauses}")


@pytest.mark.parametrize("clause", ["GROUP BY", "PARTITION BY"])
def test_a_clause_has_keys(clause: str) -> None:
    with pytest.raises(InvalidStatement, match=f"{clause} requires at least one expression"):
        select(f"COUNT(*) FROM s {clause} ()")
