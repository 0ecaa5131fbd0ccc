"""The grammar of statements: one value for each, and who may hold it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidStatement, Unsupported
from holdfast.sql.parse.clauses import Name, Property, Select, WindowClause, Within
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import (
    AlterSource,
    AssertSchema,
    AssertSource,
    AssertTombstone,
    AssertTopic,
    AssertValues,
    CreateAs,
    CreateSource,
    Define,
    Describe,
    DropSource,
    Explain,
    InsertSelect,
    InsertValues,
    Print,
    RunScript,
    SetProperty,
    Show,
    Steer,
)
from holdfast.sql.parse.text import Definitions, Place, parse
from holdfast.types.columns.schema import INTEGER, STRING, Base, Column, SqlType
from holdfast.types.statements.topology import JoinKind, WindowKind

HOUR = 3_600_000


def one(text: str, place: Place = Place.FILE) -> Any:
    (statement,) = parse(Script(text), place=place)
    return statement


def select(text: str) -> Select:
    statement = one(f"CREATE TABLE o AS SELECT a FROM s {text}")
    assert isinstance(statement, CreateAs)
    return statement.select


def test_sources() -> None:
    created = one(
        "CREATE OR REPLACE SOURCE TABLE IF NOT EXISTS t (k INT PRIMARY KEY, h BYTES HEADER('x y'),"
        " hs ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, v INT) WITH (a=1, 'b c'='x', n=NULL)"
    )
    assert isinstance(created, CreateSource)
    assert (created.kind, created.name.text) == ("TABLE", "T")
    assert created.or_replace
    assert created.read_only
    assert created.if_not_exists
    assert [(c.constraint, c.header) for c in created.columns] == [
        ("PRIMARY KEY", None), ("HEADER", "x y"), ("HEADERS", None), ("", None),
    ]  # fmt: skip
    assert [(p.key, p.value) for p in created.properties] == [("A", 1), ("B C", "x"), ("N", None)]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("h INT HEADER('x')", "Invalid type for HEADER('x') column: expected BYTES, got INTEGER"),
        ("h BYTES HEADERS", "Invalid type for HEADERS column: expected ARRAY<STRUCT<KEY STRING"),
        ("h VARCHAR(KEY)", "expected a length"),
        ("h ARRAY<NULL>", "Syntax error at or near 'NULL' at line 1:26"),
    ],
)
def test_wrong_columns(column: str, message: str) -> None:
    with pytest.raises(InvalidStatement) as caught:
        one(f"CREATE STREAM s ({column});")
    assert message in str(caught.value)


def test_joins() -> None:
    joined = select(
        "AS x JOIN t ON x.a = t.a LEFT OUTER JOIN u AS v WITHIN (1 HOUR, 2 HOURS) GRACE PERIOD "
        "3 HOURS ON x.a = v.a FULL JOIN w WITHIN 1 HOUR ON TRUE RIGHT JOIN z ON x.a = z.a"
    )
    assert [(j.kind, j.source.text, j.alias and j.alias.text) for j in joined.joins] == [
        (JoinKind.INNER, "T", None),
        (JoinKind.LEFT, "U", "V"),
        (JoinKind.FULL, "W", None),
        (JoinKind.RIGHT, "Z", None),
    ]
    within = [j.within for j in joined.joins]
    assert within[0] is within[3] is None
    assert isinstance(within[1], Within)
    assert (within[1].before_ms, within[1].after_ms, within[1].grace_ms) == (HOUR, 2 * HOUR,
                                                                             3 * HOUR)  # fmt: skip
    assert isinstance(within[2], Within)
    assert (within[2].before_ms, within[2].after_ms, within[2].grace_ms) == (HOUR, HOUR, None)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("SESSION (30 SECONDS)", (WindowKind.SESSION, 30_000, 30_000, None, None)),
        ("SESSION (1 MINUTE, RETENTION 1 DAY, GRACE PERIOD 0 SECONDS)",
         (WindowKind.SESSION, 60_000, 60_000, 0, 24 * HOUR)),
        ("named TUMBLING (SIZE 1 HOUR)", (WindowKind.TUMBLING, HOUR, HOUR, None, None)),
        ("HOPPING (SIZE 2 HOURS, ADVANCE BY 1 HOUR, GRACE PERIOD 10 MILLISECONDS)",
         (WindowKind.HOPPING, 2 * HOUR, HOUR, 10, None)),
    ],
)  # fmt: skip
def test_windows(window: str, expected: tuple[Any, ...]) -> None:
    chosen = select(f"WINDOW {window} GROUP BY a EMIT FINAL")
    assert chosen.final
    clause = chosen.window
    assert isinstance(clause, WindowClause)
    found = (clause.kind, clause.size_ms, clause.advance_ms, clause.grace_ms, clause.retention_ms)
    assert found == expected


def test_stars_aliases_and_partitions() -> None:
    statement = one("CREATE STREAM o AS SELECT *, s.*, a->*, b emit, c AS partition FROM s "
                    "emit PARTITION BY b, c EMIT CHANGES")  # fmt: skip
    items = statement.select.items
    assert [i.qualifier and i.qualifier.text for i in items[:2]] == [None, "S"]
    assert [i.alias and i.alias.text for i in items[2:]] == [None, "EMIT", "PARTITION"]
    assert statement.select.source_alias == Name("EMIT", statement.text.index("emit PART"))
    assert len(statement.select.partition_by) == 2
    assert not statement.select.final


def test_inserts() -> None:
    inserted = one("INSERT INTO t WITH (QUERY_ID='q') SELECT a FROM s;")
    assert isinstance(inserted, InsertSelect)
    assert inserted.text == "INSERT INTO t WITH (QUERY_ID='q') SELECT a FROM s"
    assert inserted.properties == (Property("QUERY_ID", "q", 20),)
    values = one("INSERT INTO t (a, `b`) VALUES (-1, ARRAY['x']);")
    assert isinstance(values, InsertValues)
    assert [c.text for c in values.columns] == ["A", "b"]
    assert len(values.values) == 2
    assert one("INSERT INTO t VALUES ();").values == ()


def test_what_changes_the_catalog() -> None:
    assert one("DROP STREAM IF EXISTS s DELETE TOPIC;") == DropSource(
        "STREAM", Name("S", 22), True, True, 0
    )
    altered = one("ALTER STREAM s ADD COLUMN a INT, ADD column STRING;")
    assert isinstance(altered, AlterSource)
    assert [(c.name.text, c.type) for c in altered.columns] == [("A", INTEGER), ("COLUMN", STRING)]
    assert one("TERMINATE ALL;") == Steer("TERMINATE", None, 0)
    assert one("PAUSE ctas_x_1;") == Steer("PAUSE", Name("CTAS_X_1", 6), 0)


def test_asserts() -> None:
    stream = one("ASSERT STREAM s (a INT KEY) WITH (kafka_topic='t');")
    assert isinstance(stream, AssertSource)
    assert (stream.kind, stream.columns[0].constraint) == ("STREAM", "KEY")
    assert one(
        "ASSERT NOT EXISTS TOPIC 'a b' WITH (PARTITIONS=2) TIMEOUT 3 SECONDS;"
    ) == AssertTopic("a b", (Property("PARTITIONS", 2, 36),), False, 3_000, 0)
    assert one("ASSERT SCHEMA SUBJECT Foo ID 3;") == AssertSchema("Foo", 3, True, None, 0)
    with pytest.raises(InvalidStatement, match="must include a subject name or an id"):
        one("ASSERT SCHEMA;")
    with pytest.raises(InvalidStatement, match="Syntax error at or near 'VALUES' at line 1:8"):
        one("ASSERT VALUES s VALUES (1);")
    assert isinstance(one("ASSERT VALUES s (a) VALUES (1);", Place.SESSION), AssertValues)
    assert isinstance(one("ASSERT NULL VALUES s (a) KEY (1);", Place.TEST), AssertTombstone)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SHOW ALL TOPICS EXTENDED;", Show("TOPICS", True, True, 0)),
        ("LIST streams;", Show("STREAMS", False, False, 0)),
        ("DESCRIBE s EXTENDED;", Describe("SOURCE", Name("S", 9), True, 0)),
        ("DESCRIBE tables;", Describe("TABLES", None, False, 0)),
        ("DESCRIBE FUNCTION ucase;", Describe("FUNCTION", Name("UCASE", 18), False, 0)),
        ("EXPLAIN ctas_x;", Explain(Name("CTAS_X", 8), None, 0)),
        ("EXPLAIN SET 'a' = 'b';", Explain(None, SetProperty("a", "b"), 0)),
        ("PRINT Orders FROM BEGINNING INTERVAL 2 LIMIT 3;", Print("Orders", True, 2, 3, 0)),
        ("RUN SCRIPT 'x.sql';", RunScript("x.sql", 0)),
    ],
)
def test_statements_of_a_session(text: str, expected: Any) -> None:
    assert one(text, Place.SESSION) == expected
    with pytest.raises(InvalidStatement):
        one(text)


def test_connectors_belong_to_kafka_connect() -> None:
    for text in ("SHOW SOURCE CONNECTORS;", "DROP CONNECTOR c;", "DESCRIBE CONNECTOR c;"):
        with pytest.raises(Unsupported, match="Kafka Connect"):
            one(text, Place.SESSION)


def test_named_types() -> None:
    definitions = Definitions()
    parse(Script("CREATE TYPE point AS STRUCT<x INT, y INT>;"), definitions)
    point = SqlType(Base.STRUCT, fields=(Column("X", INTEGER), Column("Y", INTEGER)))
    assert definitions.types == {"POINT": point}
    (source,) = parse(
        Script("CREATE STREAM s (p ARRAY<POINT>, q map<string, point>);"), definitions
    )
    assert isinstance(source, CreateSource)
    assert [c.type for c in source.columns] == [
        SqlType(Base.ARRAY, element=point),
        SqlType(Base.MAP, element=point),
    ]
    parse(Script("CREATE TYPE IF NOT EXISTS point AS INT; DROP TYPE IF EXISTS other;"), definitions)
    with pytest.raises(InvalidStatement, match="already registered with type: STRUCT<X INTEGER"):
        parse(Script("CREATE TYPE point AS INT;"), definitions)
    parse(Script("DROP TYPE point;"), definitions)
    with pytest.raises(InvalidStatement, match="unknown type POINT"):
        parse(Script("CREATE STREAM s (p POINT);"), definitions)
    with pytest.raises(InvalidStatement, match="unknown type POINT"):
        parse(Script("DROP TYPE point;"), definitions)


def test_variables_stand_for_names_and_literals() -> None:
    text = (
        "DEFINE topic = 'orders'; DEFINE n = '3'; DEFINE name = '`My s`'; DEFINE q = '''it''''s''';"
        "CREATE STREAM ${name} (a INT) WITH (kafka_topic='in-${topic}-${other}', partitions=${n},"
        " x=${q});"
    )
    source = parse(Script(text.replace("`My s`", "`My_s`")))[-1]
    assert isinstance(source, CreateSource)
    assert source.name.text == "My_s"
    assert [p.value for p in source.properties] == ["in-orders-${other}", 3, "it's"]


def test_names_of_variables_do_not_tell_cases_apart_and_two_dollars_are_one() -> None:
    text = "DEFINE Name = 'x'; SET 'k' = '${NAME} $${name} ${other}';"
    assert parse(Script(text))[-1] == SetProperty("k", "x ${name} ${other}")
    with pytest.raises(InvalidStatement, match="the variable name is not defined"):
        parse(Script(f"{text} UNDEFINE NAME; DROP TYPE ${{name}};"))


def test_the_text_of_a_query_has_the_values_in_it() -> None:
    text = "DEFINE c = 'b'; DEFINE v = 'it''s'; CREATE STREAM o AS SELECT ${c}, '${v}' FROM s;"
    query = parse(Script(text))[-1]
    assert isinstance(query, CreateAs)
    assert query.text == "CREATE STREAM o AS SELECT b, 'it''s' FROM s"


def test_variables_see_only_those_before_them() -> None:
    assert parse(Script("DEFINE a = 'x'; DEFINE b = '${a}y'; UNDEFINE a;"))[1] == Define("b", "xy")
    with pytest.raises(InvalidStatement, match="the variable a is not defined") as caught:
        parse(Script("DEFINE a = 'x'; UNDEFINE a;\nDROP STREAM ${a};"))
    assert (caught.value.line, caught.value.column) == (2, 13)


@pytest.mark.parametrize("value", ["a b", "1 + 2", "- x", "", "''open", "x; DROP STREAM y"])
def test_a_value_is_one_word(value: str) -> None:
    with pytest.raises(InvalidStatement, match="must be one name or one literal"):
        parse(Script(f"DEFINE v = '{value}'; DROP STREAM ${{v}};"))


def test_substitution_can_be_switched_off() -> None:
    off = "SET 'ksql.variable.substitution.enable' = 'false'; DEFINE v = 'x';"
    assert parse(Script(off + " SET 'k' = '${v}';"))[-1] == SetProperty("k", "${v}")
    on = " UNSET 'ksql.variable.substitution.enable'; SET 'k' = '${v}';"
    assert parse(Script(off + on))[-1] == SetProperty("k", "x")


@pytest.mark.parametrize("name", ["`a b`", "`a.b`", '"ä"'])
def test_names_of_sources_are_plain(name: str) -> None:
    with pytest.raises(InvalidStatement, match="may only contain alphanumeric values"):
        one(f"CREATE STREAM {name} (a INT);")


@pytest.mark.parametrize(
    ("clauses", "name", "column"),
    [
        ("x.* FROM s", "X", 27),
        ("a FROM s JOIN t ON s.a = u.a", "U", 52),
        ("a FROM s AS y WHERE y.a = s.a AND `S `.a = 1", "S ", 61),
        ("a FROM s PARTITION BY ABS(ss.a)", "SS", 53),
    ],
)
def test_columns_are_of_sources_that_are_read(clauses: str, name: str, column: int) -> None:
    with pytest.raises(InvalidStatement) as caught:
        one(f"CREATE STREAM o AS SELECT {clauses};")
    assert f"'{name}' is not a valid stream/table name or alias" in str(caught.value)
    assert caught.value.column == column
