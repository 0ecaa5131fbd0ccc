"""Every rendering gives what ksqlDB gives: in Spark before the shuffle, in DuckDB after it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from holdfast.errors import HoldfastError
from holdfast.sql import compile_text
from holdfast.types.columns.schema import Base, SqlType
from holdfast.types.statements.topology import AggregateStep, Query
from tests.support.values.spark_functions import register_calls
from tests.unit.sql.after import last_value
from tests.unit.sql.cases import BOTH, ROW, SOURCE, SPARK_ONLY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compiled(statement: str, expressions: list[str], columns: dict[str, str]) -> list[Any]:
    """One query per expression, or the error: one bad expression must not fail all tests."""
    queries: list[Any] = []
    for expression in expressions:
        try:
            text = statement.replace("?", expression.format(**columns))
            queries.append(compile_text(SOURCE + text).queries[0])
        except HoldfastError as error:
            queries.append(error)
    return queries


@pytest.fixture(scope="module")
def in_spark(spark: SparkSession) -> dict[str, Any]:
    expressions = [e for e, _ in BOTH + SPARK_ONLY]
    statement = "CREATE STREAM o AS SELECT ? AS C FROM s;"
    queries = compiled(statement, expressions, {n: n for n in ROW})
    frame = spark.createDataFrame(pa.Table.from_pylist([ROW], schema=schema()))
    found: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    for expression, query in zip(expressions, queries, strict=True):
        try:
            output = query.step.outputs[0]
            register_calls(spark, [output.expression.canonical])
            frame.selectExpr(output.expression.canonical)  # Spark analyses eagerly
            outputs[expression] = output
        except Exception as error:  # noqa: BLE001 -- shown by the expression's own test
            found[expression] = error
    selected = [f"{o.expression.canonical} AS C{i}" for i, o in enumerate(outputs.values())]
    table = frame.selectExpr(*selected).toArrow()
    for i, (expression, output) in enumerate(outputs.items()):
        value = table[f"C{i}"].cast(output.column.type.arrow())[0].as_py()
        found[expression] = plain(value, output.column.type)
    return found


@pytest.fixture(scope="module")
def in_duckdb() -> dict[str, Any]:
    expressions = [e for e, _ in BOTH]
    columns = {n: f"LATEST_BY_OFFSET({n}, false)" for n in ROW}
    statement = "CREATE TABLE o AS SELECT K, COUNT(*) AS N, ? AS C FROM s GROUP BY K;"
    queries = compiled(statement, expressions, columns)
    found: dict[str, Any] = {}
    for expression, query in zip(expressions, queries, strict=True):
        try:
            found[expression] = evaluated(query.step)
        except Exception as error:  # noqa: BLE001 -- shown by the expression's own test
            found[expression] = error if isinstance(query, Query) else query
    return found


def evaluated(step: AggregateStep) -> Any:
    frame = {k.column.name: pa.array([1], k.column.type.arrow()) for k in step.keys}
    for call in step.aggregates:
        value = ROW[call.args[0].ref or ""] if call.args else 1
        frame[call.name] = pa.array([value], call.type.arrow())
    result = last_value(step, frame)
    return plain(result[0].as_py(), step.outputs[-1].column.type)


def schema() -> pa.Schema:
    source = compile_text(SOURCE).sources[0]
    return pa.schema([pa.field(c.name, c.type.arrow()) for c in source.columns])


def plain(value: Any, sql_type: SqlType) -> Any:
    if sql_type.base is Base.MAP and value is not None:
        return dict(value)
    return value


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(found, expected, rel_tol=1e-12)
    return type(found) is type(expected) and found == expected


@pytest.mark.parametrize(("expression", "expected"), BOTH + SPARK_ONLY, ids=lambda v: str(v)[:60])
def test_spark_gives_what_ksqldb_gives(
    in_spark: dict[str, Any], expression: str, expected: object
) -> None:
    assert same(in_spark[expression], expected), f"{in_spark[expression]!r} is not {expected!r}"


@pytest.mark.parametrize(("expression", "expected"), BOTH, ids=lambda v: str(v)[:60])
def test_duckdb_gives_what_ksqldb_gives(
    in_duckdb: dict[str, Any], expression: str, expected: object
) -> None:
    assert same(in_duckdb[expression], expected), f"{in_duckdb[expression]!r} is not {expected!r}"
