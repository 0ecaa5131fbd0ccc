"""Syntax errors, and what comes later: each with its place and a way out."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidStatement, Unsupported
from holdfast.sql import compile_text

S = "CREATE STREAM s (a INT, b STRING) WITH (KAFKA_TOPIC='t');\n"
T = "CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t');\n"

SYNTAX = [
    ("SELCT a FROM s;", "does not start a statement", "did you mean SELECT?", 1, 1),
    ("CREATE STREEM s (a INT);", "expected STREAM or TABLE", "did you mean STREAM?", 1, 8),
    ("CREATE STREAM s (a INT", "expected , or )", "the end of the file", 1, 23),
    ("CREATE STREAM (a INT);", "expected the name of the stream", "", 1, 15),
    ("CREATE STREAM s (a);", "expected a type", "", 1, 19),
    ("SET a = 'b';", "SET is written SET 'key' = 'value'", "", 1, 5),
    ("SET 'a' 'b';", 'expected = but found "b"', "", 1, 9),
    ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC=t);", "must be a literal", "", 1, 43),
    ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='t)", "that opens here is never closed", "", 1, 43),
    ("/* no end", "the /* that opens here is never closed", "", 1, 1),
    (S + "CREATE STREAM o AS SELECT FROM s;", "expected a column or an expression", "", 2, 27),
    (S + "CREATE STREAM o AS SELECT a, FROM s;", "expected a column or an expression", "", 2, 30),
    (S + "CREATE STREAM o AS SELECT a FORM s;", "expected FROM", "", 2, 34),
    (S + "CREATE STREAM o AS SELECT a + FROM s;", "expected an operand", "reserved keyword", 2, 31),
    (S + "CREATE STREAM o AS SELECT (a FROM s;", "parenthesis is missing", "", 2, 30),
    (S + "CREATE STREAM o AS SELECT a FROM s WHERE;", "expected a condition", "", 2, 41),
    (S + "CREATE STREAM o AS SELECT a FROM s EMIT CHANGE;", "did you mean CHANGES?", "", 2, 41),
    (S + "CREATE STREAM o AS SELECT DISTINCT a FROM s;", "no SELECT DISTINCT", "", 2, 27),
    (S + "CREATE STREAM o AS SELECT CAST(a, INT) FROM s;", "CAST is written", "", 2, 33),
    (S + "CREATE STREAM o AS SELECT CAST(a AS NUMBER) FROM s;", "unknown type NUMBER", "", 2, 37),
    (S + "CREATE STREAM o AS SELECT a FROM s GROUP BY a WHERE a > 1;",
     "WHERE is out of place", "", 2, 47),
    (S + "CREATE TABLE o AS SELECT a, COUNT(*) FROM s WINDOW TUMBLE (SIZE 1 HOUR) GROUP BY a;",
     "did you mean TUMBLING?", "", 2, 52),
    (S + "CREATE TABLE o AS SELECT a, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 HOURZ) GROUP BY a;",
     "expected a unit of time", "did you mean HOUR?", 2, 69),
    (S + "CREATE TABLE o AS SELECT a, COUNT(*) FROM s WINDOW HOPPING (SIZE 1 HOUR) GROUP BY a;",
     "needs ADVANCE BY", "", 2, 52),
    (S + "CREATE TABLE o AS SELECT a, COUNT(*) FROM s WINDOW TUMBLING (GRACE PERIOD 1 DAY);",
     "needs SIZE", "", 2, 52),
    ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='t')\nCREATE STREAM r (a INT);",
     "does not end with a semicolon", "", 2, 1),
    (S + "CREATE STREAM o (a INT) AS SELECT a FROM s;",
     "takes its columns from the SELECT", "", 2, 25),
    (S + "CREATE STREAM o AS SELECT a FROM s EMIT CHANGES LIMIT 3;", "LIMIT", "", 2, 49),
    (S + "CREATE TABLE o AS SELECT a, COUNT(*) FROM s GROUP BY a ORDER BY a;",
     "CREATE TABLE AS SELECT has no ORDER BY", "order them when you read them", 2, 56),
    (S + "CREATE STREAM o AS SELECT a FROM s; INSERT INTO o SELECT a FROM s ORDER BY a;",
     "INSERT INTO ... SELECT has no ORDER BY", "", 2, 67),
    (S + 'CREATE STREAM o AS SELECT a FROM s WHERE b = "Aliens";', "'Aliens' cannot be resolved",
     "it takes single quotes: 'Aliens'", 2, 46),
    (S + "CREATE STREAM o AS SELECT a FROM s WHERE b IN ('x', Aliens);", "cannot be resolved",
     "it takes single quotes: 'Aliens'", 2, 53),
    (S + "CREATE STREAM o AS SELECT a FROM s WHERE a IN (SELECT a FROM s);",
     "IN takes a list", "", 2, 48),
    ("RUN SCRIPT 'x';", "Unknown statement 'RUN'", "", 1, 1),
    ("CREATE STREAM x WITH (KAFKA_TOPIC='x');",
     "declares no columns", "list the columns", 1, 15),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "hint", "line", "column"), SYNTAX)
def test_syntax_errors(text: str, message: str, hint: str, line: int, column: int) -> None:
    with pytest.raises(InvalidStatement) as caught:
        compile_text(text)
    assert not isinstance(caught.value, Unsupported)
    assert message in str(caught.value)
    assert hint in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column), str(caught.value)


LATER = [
    ("SELECT * FROM s EMIT CHANGES;", "pull and push queries", 2, 1),
    ("SHOW STREAMS;", "steer a running job", 2, 1),
    ("CREATE SOURCE CONNECTOR c WITH ('a'='b');", "connectors", 2, 8),
    ("ASSERT SCHEMA ID 3;", "Schema Registry", 2, 1),
    ("ALTER SYSTEM 'a' = 'b';", "ALTER SYSTEM", 2, 1),
    ("PAUSE ALL;", "steers a running job", 2, 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "line", "column"), LATER)
def test_what_comes_later_is_refused_by_name(
    text: str, message: str, line: int, column: int
) -> None:
    with pytest.raises(Unsupported) as caught:
        compile_text(S + text)
    assert message in str(caught.value)
    assert caught.value.action
    assert (caught.value.line, caught.value.column) == (line, column), str(caught.value)


def test_the_last_semicolon_may_be_missing_and_empty_statements_are_fine() -> None:
    topology = compile_text(";;" + S + ";CREATE STREAM o AS SELECT a FROM s")
    assert [q.id for q in topology.queries] == ["csas_o"]


def test_an_empty_file_has_no_queries() -> None:
    assert compile_text("-- nothing\n").queries == ()
