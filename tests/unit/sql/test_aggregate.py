"""CREATE TABLE AS SELECT ... GROUP BY: keys, aggregates, outputs, HAVING, windows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import InvalidStatement, Unsupported
from holdfast.sql import compile_text
from holdfast.tasks.aggregates.base import Aggregate, AggregateFunction
from holdfast.tasks.evaluate.outputs import Expressions
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, Base, Column, SqlType
from holdfast.types.statements.topology import (
    AggregateCall,
    AggregateStep,
    Format,
    Query,
    Window,
    WindowKind,
)
from tests.support.values.expressions import condition, duckdb_column, source_column

S = (
    "CREATE STREAM s (k STRING, i INT, d DOUBLE, n DECIMAL(8, 2), ts BIGINT, m MAP<STRING, INT>, "
    "a ARRAY<INT>) WITH (KAFKA_TOPIC='in', PARTITIONS=3, REPLICAS=2, VALUE_FORMAT='JSON');\n"
)
HOUR = 3_600_000
DAY = 24 * HOUR


def table(select: str, with_clause: str = "") -> Query:
    return compile_text(f"{S}CREATE TABLE t{with_clause} AS {select};").queries[-1]


def step_of(select: str) -> AggregateStep:
    step = table(select).step
    assert isinstance(step, AggregateStep)
    return step


def test_a_whole_statement() -> None:
    query = table(
        "SELECT k, COUNT(*) AS c, SUM(i) AS total FROM s WHERE i > 0 AND d IS NOT NULL "
        "GROUP BY k HAVING COUNT(*) > 1 EMIT CHANGES"
    )
    assert query.id == "ctas_t"
    assert query.statement.startswith("CREATE TABLE t")
    assert query.statement.endswith("EMIT CHANGES")
    assert str(query.filter) == '(("I" > 0) AND ("D" IS NOT NULL))'
    assert query.step == AggregateStep(
        keys=(source_column(Column("K", STRING)),),
        window=None,
        aggregates=(
            AggregateCall("__a0", "COUNT", (), (), BIGINT),
            AggregateCall(
                "__a1", "SUM", (source_column(Column("I", INTEGER)).expression,), (), INTEGER
            ),
        ),
        outputs=(
            duckdb_column(Column("C", BIGINT), "__a0"),
            duckdb_column(Column("TOTAL", INTEGER), "__a1"),
        ),
        having=condition('TRY(("__a0" > CAST(1 AS BIGINT)))', "__a0"),
    )


def test_the_sink_inherits_what_is_not_said() -> None:
    sink = table("SELECT k, COUNT(*) AS c FROM s GROUP BY k").sink
    assert (sink.name, sink.kind, sink.topic) == ("T", "TABLE", "T")
    assert (sink.partitions, sink.replicas) == (3, 2)
    assert (sink.key_format, sink.value_format) == (Format.KAFKA, Format.JSON)
    assert (sink.key_columns, sink.value_columns) == (
        (Column("K", STRING),),
        (Column("C", BIGINT),),
    )


def test_with_says_otherwise() -> None:
    query = table(
        "SELECT k, COUNT(*) AS c, MAX(ts) AS ts FROM s GROUP BY k",
        " WITH (KAFKA_TOPIC='out', FORMAT='JSON', PARTITIONS=1, REPLICAS=1, RETENTION_MS=60000, "
        "TIMESTAMP='ts')",
    )
    sink = query.sink
    assert (sink.topic, sink.partitions, sink.replicas) == ("out", 1, 1)
    assert sink.key_format is Format.JSON
    assert query.properties == (("RETENTION_MS", "60000"), ("TIMESTAMP", "ts"))


@pytest.mark.parametrize(
    ("select", "names", "chosen"),
    [
        ("SELECT k, COUNT(*) FROM s GROUP BY k", ["K"], Format.KAFKA),
        ("SELECT k AS key1, COUNT(*) FROM s GROUP BY k", ["KEY1"], Format.KAFKA),
        ("SELECT UCASE(k), COUNT(*) AS c FROM s GROUP BY ucase(s.k)", ["KSQL_COL_0"], Format.KAFKA),
        ("SELECT (i + 1) AS `next`, COUNT(*) FROM s x GROUP BY x.i + 1", ["next"], Format.KAFKA),
        ("SELECT ROWPARTITION AS p, COUNT(*) FROM s GROUP BY ROWPARTITION", ["P"], Format.KAFKA),
    ],
)
def test_grouping_expressions_that_are_selected_are_the_key(
    select: str, names: list[str], chosen: Format
) -> None:
    query = table(select)
    assert isinstance(query.step, AggregateStep)
    assert [c.name for c in query.sink.key_columns] == names
    assert [k.column for k in query.step.keys] == list(query.sink.key_columns)
    assert query.sink.key_format is chosen


@pytest.mark.parametrize(
    ("select", "names"),
    [
        ("SELECT k, i, COUNT(*) FROM s GROUP BY k, i", ["K", "I"]),
        ("SELECT i, k, COUNT(*) FROM s GROUP BY (k, i)", ["K", "I"]),
        ("SELECT n, COUNT(*) FROM s GROUP BY n", ["N"]),
    ],
)
def test_a_key_that_kafka_cannot_hold_needs_another_key_format(
    select: str, names: list[str]
) -> None:
    with pytest.raises(InvalidStatement, match="Key format does not support schema"):
        table(select)
    assert [c.name for c in table(select, " WITH (KEY_FORMAT='JSON')").sink.key_columns] == names


def test_as_value_copies_the_key_and_expressions_of_keys_are_values() -> None:
    step = step_of(
        "SELECT k, AS_VALUE(k) AS copy, LCASE(k) AS low, COUNT(*) AS c FROM s GROUP BY k"
    )
    assert step.outputs[0] == duckdb_column(Column("COPY", STRING), "K")
    assert step.outputs[1].ref is None
    assert step.outputs[1].sql == 'TRY(CAST(hf_lower__ss("K") AS VARCHAR))'


def test_identical_calls_are_one_aggregate() -> None:
    step = step_of(
        "SELECT k, SUM(i) AS a, sum(s.i) AS b, SUM(i) / COUNT(*) AS avg1, COUNT(1) AS c, "
        "LATEST_BY_OFFSET(i) AS l, LATEST_BY_OFFSET(i, false) AS m FROM s GROUP BY k "
        "HAVING SUM(i) > 3"
    )
    assert [(a.name, a.function, tuple(map(str, a.args)), a.literals) for a in step.aggregates] == [
        ("__a0", "COUNT", (), ()),
        ("__a1", "COUNT", ("1",), ()),
        ("__a2", "LATEST_BY_OFFSET", ('"I"',), ()),
        ("__a3", "LATEST_BY_OFFSET", ('"I"',), (False,)),
        ("__a4", "SUM", ('"I"',), ()),
    ]
    assert [o.ref for o in step.outputs] == ["__a4", "__a4", None, "__a1", "__a2", "__a3"]


@pytest.mark.parametrize(
    "select",
    [
        "SELECT COUNT(*) AS c, k, SUM(i) AS total FROM s GROUP BY k",
        "SELECT k AS other, SUM(i) AS x, COUNT(*) * 2 AS y FROM s f GROUP BY f.k",
        "SELECT k, SUM(I) + 1 AS z FROM s GROUP BY k HAVING count(*) > 4",
    ],
)
def test_what_is_stored_does_not_depend_on_the_select_list(select: str) -> None:
    expected = table("SELECT k, SUM(i) AS total, COUNT(*) AS c FROM s GROUP BY k")
    assert table(select).fingerprint() == expected.fingerprint()


def test_the_fingerprint_changes_with_the_state() -> None:
    selects = [
        "SELECT k, COUNT(*) FROM s GROUP BY k",
        "SELECT k, COUNT(i) FROM s GROUP BY k",
        "SELECT i, COUNT(*) FROM s GROUP BY i",
        "SELECT k, COUNT(*) FROM s WHERE i > 1 GROUP BY k",
        "SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k",
        "SELECT k, TOPK(i, 3) FROM s GROUP BY k",
        "SELECT k, TOPK(i, 4) FROM s GROUP BY k",
    ]
    assert len({table(s).fingerprint() for s in selects}) == len(selects)


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("COUNT(*)", BIGINT),
        ("COUNT(k)", BIGINT),
        ("SUM(d)", DOUBLE),
        ("SUM(n)", SqlType(Base.DECIMAL, 8, 2)),
        ("AVG(i)", DOUBLE),
        ("MIN(k)", STRING),
        ("MAX(i + 0.5)", SqlType(Base.DECIMAL, 12, 1)),
        ("EARLIEST_BY_OFFSET(k)", STRING),
        ("LATEST_BY_OFFSET(k, 2)", SqlType(Base.ARRAY, element=STRING)),
        ("COLLECT_LIST(i)", SqlType(Base.ARRAY, element=INTEGER)),
        ("COLLECT_SET(k)", SqlType(Base.ARRAY, element=STRING)),
        ("TOPK(d, 3)", SqlType(Base.ARRAY, element=DOUBLE)),
        ("COUNT_DISTINCT(k)", BIGINT),
        ("SUM(CASE WHEN k = 'x' THEN 1 ELSE 0 END)", INTEGER),
        ("MAX(ROWTIME)", BIGINT),
        ("COLLECT_LIST(i)[1]", INTEGER),
        ("SUM(i) / 2", INTEGER),
        ("CAST(SUM(i) AS DOUBLE) / COUNT(*)", DOUBLE),
    ],
)
def test_result_types(call: str, result: SqlType) -> None:
    step = step_of(f"SELECT k, {call} AS x FROM s GROUP BY k")
    assert step.outputs[0].column == Column("X", result)


def test_windows_have_ksqldbs_defaults() -> None:
    def window(clause: str) -> Window | None:
        return step_of(f"SELECT k, COUNT(*) FROM s WINDOW {clause} GROUP BY k").window

    tumbling, hopping = WindowKind.TUMBLING, WindowKind.HOPPING
    assert window("TUMBLING (SIZE 1 HOUR)") == Window(tumbling, HOUR, HOUR, DAY - HOUR, DAY)
    assert window("TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 1 MINUTE)") == Window(
        tumbling, 10_000, 10_000, 60_000, 70_000
    )
    assert window(
        "HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS, RETENTION 7 DAYS, GRACE PERIOD 5 MINUTES)"
    ) == Window(hopping, 30_000, 10_000, 300_000, 7 * DAY)


def test_window_bounds_are_numbers_that_compare_with_dates() -> None:
    step = step_of(
        "SELECT k, WINDOWSTART AS ws, WINDOWEND - WINDOWSTART AS width, "
        "WINDOWSTART >= '2024-01-01' AS late, COUNT(*) AS c, "
        "FORMAT_TIMESTAMP(FROM_UNIXTIME(WINDOWSTART), 'yyyy-MM-dd HH') AS h "
        "FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k"
    )
    assert step.outputs[0] == duckdb_column(Column("WS", BIGINT), "WINDOWSTART")
    frame: dict[str, pa.Array] = {
        "K": pa.array(["x", "x"]),
        "WINDOWSTART": pa.array([1_704_067_200_000, 1_704_063_600_000]),
        "WINDOWEND": pa.array([1_704_070_800_000, 1_704_067_200_000]),
        "__a0": pa.array([5, 6]),
    }
    values = [c.to_pylist() for c in Expressions(step.outputs).columns(frame)]
    assert values[1:] == [[HOUR, HOUR], [True, False], [5, 6], ["2024-01-01 00", "2023-12-31 23"]]


def test_after_the_aggregation_numbers_wrap_around_and_errors_are_null() -> None:
    step = step_of(
        "SELECT k, SUM(i) * 9223372036854775807 AS x, COUNT(*) / 0 AS y FROM s GROUP BY k"
    )
    frame = {"K": pa.array(["x", "y"]), "__a0": pa.array([2, 2]), "__a1": pa.array([4, 1])}
    values = [c.to_pylist() for c in Expressions(step.outputs).columns(frame)]
    assert values == [[-4, 9223372036854775807], [None, None]]


class Product(AggregateFunction):
    name = "PRODUCT"

    def result_type(self, args: Any, literals: Any) -> SqlType:
        if len(args) != 1:
            raise ValueError("PRODUCT takes one number")
        return DOUBLE

    def bind(self, call: AggregateCall) -> Aggregate:
        raise AssertionError("planning binds nothing")


def test_aggregates_of_the_caller() -> None:
    text = f"{S}CREATE TABLE t AS SELECT k, product(d) AS p FROM s GROUP BY k;"
    step = compile_text(text, extra_aggregates={"Product": Product()}).queries[0].step
    assert isinstance(step, AggregateStep)
    argument = source_column(Column("D", DOUBLE)).expression
    assert step.aggregates == (AggregateCall("__a0", "PRODUCT", (argument,), (), DOUBLE),)
    with pytest.raises(InvalidStatement, match="PRODUCT takes one number"):
        compile_text(text.replace("product(d)", "product(d, d)"), extra_aggregates={"P": Product(),
                     "PRODUCT": Product()})  # fmt: skip
    with pytest.raises(InvalidStatement, match="Can't find any functions with the name 'PRODUCT'"):
        compile_text(text)


INVALID = [
    ("SELECT COUNT(*) FROM s GROUP BY k", "must include the grouping expression K", 19),
    ("SELECT i, COUNT(*) FROM s GROUP BY k", "not part of GROUP BY: I\nEither add", 26),
    ("SELECT k, i, COUNT(*) FROM s GROUP BY k",
     "Non-aggregate SELECT expression(s) not part of GROUP BY: I", 29),
    ("SELECT k, COUNT(*) FROM s GROUP BY k HAVING d > 1",
     "Non-aggregate HAVING expression not part of GROUP BY: D", 63),
    ("SELECT k, k AS k2, COUNT(*) FROM s GROUP BY k", "more than once: `K` and `K2`", 29),
    ("SELECT k, COUNT(*) AS k FROM s GROUP BY k", "K is selected twice", 29),
    ("SELECT k, SUM(COUNT(*)) FROM s GROUP BY k",
     "Aggregate functions can not be nested: SUM(COUNT())", 29),
    ("SELECT k, COUNT(*) FROM s WHERE COUNT(*) > 1 GROUP BY k", "COUNT cannot stand in WHERE", 51),
    ("SELECT COUNT(*), COUNT(i) FROM s GROUP BY COUNT(*)",
     "GROUP BY does not support aggregate functions: COUNT", 61),
    ("SELECT k FROM s GROUP BY k", "GROUP BY requires aggregate functions", 44),
    ("SELECT COUNT(*), k FROM s", "not part of GROUP BY: K", 36),
    ("SELECT COUNT(*) AS c FROM s", "aggregate function [COUNT(ROWTIME)] without a GROUP", 26),
    ("SELECT k, i FROM s", "Your SELECT query produces a STREAM", 14),
    ("SELECT COUNT(*) FROM s GROUP BY 1", "must include the grouping expression 1", 19),
    ("SELECT m, COUNT(*) FROM s GROUP BY m", "Map keys, including types that contain maps", 54),
    ("SELECT k, COUNT(*) FROM s GROUP BY k, k", "Duplicate GROUP BY expression: S.K", 57),
    ("SELECT UCASE(k) AS u, COUNT(*) FROM s GROUP BY u", "GROUP BY cannot use an alias", 66),
    ("SELECT k FROM s GROUP BY k HAVING COUNT(*) > 1", "no value columns", 19),
    ("SELECT k, SUM(k) FROM s GROUP BY k",
     "Function 'SUM' does not accept parameters (STRING)", 29),
    ("SELECT k, SUM(*) FROM s GROUP BY k", "SUM takes a column, not *", 29),
    ("SELECT k, COUNT(DISTINCT i) FROM s GROUP BY k", "COUNT takes no DISTINCT", 29),
    ("SELECT k, COUNT(NULL) FROM s GROUP BY k", "COUNT(NULL) has no type", 29),
    ("SELECT k, CONT(*) FROM s GROUP BY k", "did you mean COUNT?", 29),
    ("SELECT k, WINDOWSTART AS w, COUNT(*) FROM s GROUP BY k",
     "SELECT column 'WINDOWSTART' cannot be resolved", 29),
    ("SELECT k, MAX(WINDOWEND) FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k",
     "can not be passed to aggregate functions", 33),
    ("SELECT k, WINDOWSTART, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k",
     "Reserved column name in select: `WINDOWSTART`", 29),
    ("SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 2 HOURS) GROUP BY k",
     "RETENTION (7200000 ms) is less than SIZE + GRACE PERIOD (3600000 + 82800000 ms)", 52),
    ("SELECT k, COUNT(*) FROM s WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 2 HOURS) GROUP BY k",
     "ADVANCE BY (7200000 ms) must be more than 0", 52),
    ("SELECT k, i FROM s WINDOW TUMBLING (SIZE 1 HOUR)",
     "WINDOW clause requires a GROUP BY", 19),
    ("SELECT k, COUNT(*) FROM s GROUP BY k PARTITION BY k", "exclude each other", 19),
    ("SELECT k, COUNT(*), NULL AS n FROM s GROUP BY k", "N is NULL and has no type", 39),
    ("SELECT k, COUNT(*) FROM r GROUP BY k", "R does not exist", 43),
    ("SELECT k, COUNT(*) FROM s GROUP BY kk",
     "column 'KK' cannot be resolved.\nWhat to do: did you mean K?", 54),
]  # fmt: skip


@pytest.mark.parametrize(("select", "message", "column"), INVALID)
def test_invalid_aggregations(select: str, message: str, column: int) -> None:
    with pytest.raises(InvalidStatement) as caught:
        table(select)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (2, column), str(caught.value)
    assert not isinstance(caught.value, Unsupported)


def test_a_stream_cannot_be_grouped() -> None:
    with pytest.raises(InvalidStatement, match="produces a TABLE"):
        compile_text(f"{S}CREATE STREAM t AS SELECT k, COUNT(*) FROM s GROUP BY k;")


def test_names_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(Unsupported, match="differ only in case"):
        table("SELECT k AS a, i AS `a`, COUNT(*) FROM s GROUP BY k, i")
    with pytest.raises(Unsupported, match="differ only in case"):
        table("SELECT k, COUNT(*) AS `k` FROM s GROUP BY k")


def test_a_key_format_that_is_asked_for_must_fit() -> None:
    with pytest.raises(InvalidStatement, match="'KAFKA' format only supports a single field"):
        table("SELECT k, i, COUNT(*) FROM s GROUP BY k, i", " WITH (KEY_FORMAT='KAFKA')")
    with pytest.raises(InvalidStatement, match="'NONE' format can only be used when no columns"):
        table("SELECT k, COUNT(*) FROM s GROUP BY k", " WITH (KEY_FORMAT='NONE')")
