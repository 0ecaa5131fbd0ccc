"""CREATE STREAM AS SELECT without GROUP BY, and statements that follow one another."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text
from holdfast.types.columns.schema import BIGINT, INTEGER, STRING, Column
from holdfast.types.statements.topology import (
    AggregateStep,
    Format,
    NamedExpression,
    ProjectStep,
    Query,
    TimestampSpec,
)
from tests.support.values.expressions import source_column

S = (
    "CREATE STREAM s (id INT KEY, b STRING, c BIGINT, p STRUCT<x INT, y STRING>) "
    "WITH (KAFKA_TOPIC='in', PARTITIONS=3);\n"
)


def stream(select: str, with_clause: str = "") -> Query:
    return compile_text(f"{S}CREATE STREAM o{with_clause} AS {select};").queries[-1]


def step_of(select: str) -> ProjectStep:
    step = stream(select).step
    assert isinstance(step, ProjectStep)
    return step


def names(columns: tuple[NamedExpression, ...]) -> list[str]:
    return [c.column.name for c in columns]


def test_the_source_key_stays_the_key() -> None:
    query = stream("SELECT id, UCASE(b) AS ub, c + 1 FROM s WHERE c > 3 OR b LIKE 'x%'")
    assert query.id == "csas_o"
    assert str(query.filter) == ('(("C" > CAST(3 AS BIGINT)) OR ("B" LIKE \'x%\'))')
    assert isinstance(query.step, ProjectStep)
    assert query.step.keys == (source_column(Column("ID", INTEGER)),)
    made = [(o.column, o.expression.canonical, o.expression.columns) for o in query.step.outputs]
    assert made == [
        (Column("UB", STRING), "upper(`B`)", ("B",)),
        (Column("KSQL_COL_0", BIGINT), "(`C` + CAST(1 AS BIGINT))", ("C",)),
    ]
    assert (query.sink.kind, query.sink.topic, query.sink.partitions) == ("STREAM", "O", 3)


@pytest.mark.parametrize(
    ("select", "keys", "values"),
    [
        ("SELECT * FROM s", ["ID"], ["B", "C", "P"]),
        ("SELECT s.*, c * 2 AS double_c FROM s", ["ID"], ["B", "C", "P", "DOUBLE_C"]),
        ("SELECT x.* FROM s AS x", ["ID"], ["B", "C", "P"]),
        ("SELECT id AS i2, b FROM s", ["I2"], ["B"]),
        ("SELECT id, AS_VALUE(id) AS copy FROM s", ["ID"], ["COPY"]),
        ("SELECT id, p->x, p->y AS z FROM s", ["ID"], ["X", "Z"]),
        ("SELECT id, p->* FROM s", ["ID"], ["X", "Y"]),
        ("SELECT id, c + 1, b, c + 2 FROM s", ["ID"], ["KSQL_COL_0", "B", "KSQL_COL_1"]),
        ("SELECT id, b, c FROM s PARTITION BY b", ["B"], ["ID", "C"]),
        ("SELECT * FROM s PARTITION BY c", ["C"], ["B", "P", "ID"]),
        ("SELECT * FROM s PARTITION BY UCASE(b)", ["KSQL_COL_0"], ["B", "C", "P", "ID"]),
        ("SELECT b, UCASE(b) AS k FROM s PARTITION BY UCASE(b)", ["K"], ["B"]),
        ("SELECT id, b FROM s PARTITION BY NULL", [], ["ID", "B"]),
        ("SELECT id, ROWTIME AS t, ROWOFFSET AS o, ROWPARTITION AS p2 FROM s", ["ID"],
         ["T", "O", "P2"]),
    ],
)  # fmt: skip
def test_keys_and_values(select: str, keys: list[str], values: list[str]) -> None:
    step = step_of(select)
    assert (names(step.keys), names(step.outputs)) == (keys, values)


def test_several_partitioning_columns_do_not_fit_the_key_format_of_the_source() -> None:
    several = "SELECT b, c, id FROM s PARTITION BY b, c"
    with pytest.raises(InvalidStatement, match="only supports a single field"):
        stream(several)
    sink = stream(several, with_clause=" WITH (KEY_FORMAT='JSON')").sink
    assert (sink.key_format, sink.always_keyed) == (Format.JSON, True)


def test_pseudo_columns_are_what_ingest_adds() -> None:
    step = step_of("SELECT id, ROWTIME AS t, ROWOFFSET AS o, ROWPARTITION AS p2 FROM s")
    assert [o.sql for o in step.outputs] == ['"__timestamp"', '"__offset"', '"__partition"']


def test_rowtime_compares_with_dates() -> None:
    query = stream("SELECT id, b FROM s WHERE ROWTIME > '2024-01-01T00:00:01'")
    assert str(query.filter) == '("__timestamp" > 1704067201000)'


def test_a_sink_is_a_source_of_later_statements() -> None:
    topology = compile_text(
        S
        + "CREATE STREAM mid WITH (KAFKA_TOPIC='middle', TIMESTAMP='c') AS SELECT id, b, c FROM s;"
        + "CREATE TABLE t AS SELECT b, COUNT(*) AS n FROM mid GROUP BY b;"
    )
    first, second = topology.queries
    assert second.source.name == first.sink.name == "MID"
    assert second.source.topic == "middle"
    assert second.source.key_columns == (Column("ID", INTEGER),)
    assert second.source.timestamp == TimestampSpec("C")
    assert isinstance(second.step, AggregateStep)
    assert [s.name for s in topology.sources] == ["S"]
    assert topology.query("T") is second


def test_statements_see_only_those_before_them() -> None:
    with pytest.raises(InvalidStatement, match="MID does not exist"):
        compile_text(
            S + "CREATE STREAM o AS SELECT * FROM mid; CREATE STREAM mid AS SELECT * FROM s;"
        )


INVALID = [
    ("SELECT b, c FROM s", "must include the key column ID", 20),
    ("SELECT id FROM s", "no value columns", 20),
    ("SELECT id, b FROM s PARTITION BY c", "must include the partitioning expression S.C", 53),
    ("SELECT id, id AS i2, b FROM s", "more than once, aliased as: I2 and ID", 31),
    ("SELECT id, b, c AS b FROM s", "B is selected twice", 34),
    ("SELECT id, d FROM s", "SELECT column 'D' cannot be resolved", 31),
    ("SELECT id, x.b FROM s", "'X' is not a valid stream/table name", 31),
    ("SELECT x.* FROM s", "'X' is not a valid stream/table name", 27),
    ("SELECT id, ROWTIME FROM s", "Reserved column name in select: `ROWTIME`", 31),
    ("SELECT id, b AS WINDOWEND FROM s", "`WINDOWEND` is a reserved column name", 31),
    ("SELECT id, WINDOWSTART AS w FROM s", "SELECT column 'WINDOWSTART' cannot be resolved", 31),
    ("SELECT id, COUNT(*) AS n FROM s", "SELECT expression(s) not part of GROUP BY: ID", 27),
    ("SELECT id, b FROM s HAVING id > 1", "HAVING clause requires a GROUP BY clause", 20),
    (
        "SELECT id, b FROM s WINDOW TUMBLING (SIZE 1 DAY)",
        "WINDOW clause requires a GROUP BY clause",
        20,
    ),
    ("SELECT id, b->* FROM s", "->* needs a STRUCT", 31),
    ("SELECT id, NULL AS n FROM s", "Can't infer a type of null", 31),
    ("SELECT id, b FROM s PARTITION BY id, NULL", "multiple columns including NULL", 20),
]


@pytest.mark.parametrize(("select", "message", "column"), INVALID)
def test_invalid_projections(select: str, message: str, column: int) -> None:
    with pytest.raises(InvalidStatement) as caught:
        stream(select)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (2, column), str(caught.value)


COPY = "CREATE STREAM o AS SELECT * FROM s;"
COPY_TO_O = "CREATE STREAM x WITH (KAFKA_TOPIC='O') AS SELECT * FROM s;"
SINKS = [
    ("CREATE STREAM s AS SELECT * FROM s;", "the stream S exists already, from line 1"),
    ("CREATE STREAM o WITH (KAFKA_TOPIC='in') AS SELECT * FROM s;", "topic in that it reads"),
    (COPY + COPY, "the stream O exists already"),
    (COPY + COPY_TO_O, "X would write the topic O, which O writes already"),
    (COPY + COPY.replace("o AS", "`o` AS"), "would both be csas_o"),
    ("CREATE STREAM `o o` AS SELECT * FROM s;", "Got: 'o o'"),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "message"), SINKS)
def test_sinks_that_collide(statements: str, message: str) -> None:
    with pytest.raises(InvalidStatement, match="line 2") as caught:
        compile_text(S + statements)
    assert message in str(caught.value)


def test_a_key_without_the_source_having_one() -> None:
    topology = compile_text(
        "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='in', KEY_FORMAT='NONE');"
        "CREATE STREAM o AS SELECT a FROM s; CREATE STREAM p AS SELECT a, a + 1 AS b FROM s "
        "PARTITION BY a;"
    )
    assert topology.queries[0].sink.key_columns == ()
    assert topology.queries[1].sink.key_format is Format.KAFKA
