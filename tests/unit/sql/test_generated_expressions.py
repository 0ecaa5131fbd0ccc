"""Well-typed expressions made at random: both engines accept what the planner accepts.

A text that an engine's binder refuses would fail a running job, so every function and operator
is put into every other: Spark analyses the text, DuckDB evaluates it (over values and NULLs).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text
from holdfast.sql.functions.catalog import function_names, lookup_function
from holdfast.sql.functions.signatures import Overload, Pattern
from holdfast.types.statements.topology import AggregateStep, ProjectStep
from tests.support.values.spark_functions import register_calls
from tests.unit.sql.after import last_value
from tests.unit.sql.cases import ROW, SOURCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "STRING": ["{S}", "{T}", "{NOTHING}", "{J}", "'x'", "{W}[1]", "{P}->Q->Y"],
    "INTEGER": ["{I}", "{NEG}", "{ZERO}", "3", "-1", "{A}[1]", "{M}['a']", "{P}->X"],
    "BIGINT": ["{B}", "{B} + 1"],
    "DOUBLE": ["{D}", "{ND}", "1.5E0"],
    "DECIMAL": ["{DEC}", "0.25"],
    "BOOLEAN": ["{F}", "{NF}", "TRUE"],
    "DATE": ["{DT}"],
    "TIME": ["{TM}"],
    "TIMESTAMP": ["{TS}"],
    "ARRAY<INTEGER>": ["{A}", "ARRAY[1, NULL]"],
    "ARRAY<STRING>": ["{W}", "ARRAY['a', {S}]"],
    "MAP<INTEGER>": ["{M}", "MAP('a' := 1)"],
    "MAP<STRING>": ["MAP({S} := 'x')"],
    "UNIT": ["DAYS", "MONTH"],
}
VARIABLES = {"T": ["STRING", "INTEGER"], "N": ["INTEGER", "BIGINT", "DOUBLE", "DECIMAL"]}
OPERATORS = {
    "STRING": ["({STRING} + {STRING})", "CAST({INTEGER} AS STRING)", "CAST({DATE} AS STRING)"],
    "INTEGER": ["({INTEGER} / {INTEGER})", "({INTEGER} % {INTEGER})", "CAST({STRING} AS INT)"],
    "BIGINT": ["({BIGINT} * {INTEGER})", "CAST({DOUBLE} AS BIGINT)", "- {BIGINT}"],
    "DOUBLE": ["({DOUBLE} / {BIGINT})", "({DOUBLE} - {DECIMAL})", "CAST({DECIMAL} AS DOUBLE)"],
    "DECIMAL": ["({DECIMAL} / {DECIMAL})", "({DECIMAL} * {BIGINT})", "({DECIMAL} + {INTEGER})"],
    "BOOLEAN": [
        "({STRING} = {STRING})", "({INTEGER} < {DOUBLE})", "NOT {BOOLEAN}", "{STRING} LIKE '%a_'",
        "({BOOLEAN} AND {BOOLEAN})", "{INTEGER} IN (1, {INTEGER})", "{DATE} IS NOT NULL",
        "{DECIMAL} BETWEEN {INTEGER} AND {DOUBLE}", "{TIMESTAMP} IS DISTINCT FROM {TIMESTAMP}",
        "({TIMESTAMP} > {DATE})", "({DATE} = '2024-02-29')",
        "({ARRAY<INTEGER>} = {ARRAY<INTEGER>})",
    ],
    "DATE": ["CAST({TIMESTAMP} AS DATE)", "CAST({STRING} AS DATE)"],
    "TIME": ["CAST({TIMESTAMP} AS TIME)"],
    "TIMESTAMP": ["CAST({DATE} AS TIMESTAMP)", "CASE WHEN {BOOLEAN} THEN {TIMESTAMP} END"],
}  # fmt: skip


def calls(wanted: str) -> Iterator[str]:
    """Templates of the calls that give the type; `{TYPE}` stands for an argument."""
    for name in function_names():
        for overload in lookup_function(name):
            if overload.spark is None or overload.result is not None:
                continue
            for variable in ["", *VARIABLES["T"], *VARIABLES["N"]]:
                bound = text_of(overload.returns, variable)
                if bound == wanted:
                    yield template(overload, variable)


def template(overload: Overload, variable: str) -> str:
    words = [text_of(p, variable or "INTEGER") for p in overload.params]
    words += words[-1:] if overload.variadic else []
    return f"{overload.name}({', '.join('{' + w + '}' for w in words)})"


def text_of(pattern: Pattern, variable: str) -> str:
    if pattern.element is not None:
        return f"{pattern.word}<{text_of(pattern.element, variable)}>"
    return variable if pattern.word in ("T", "N") else pattern.word


@cache
def expressions(wanted: str, depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(COLUMNS.get(wanted, ["NULL"]))
    templates = sorted({*OPERATORS.get(wanted, []), *calls(wanted)})
    if depth == 0 or not templates:
        return leaves
    return st.sampled_from(templates).flatmap(lambda text: filled(text, depth - 1))


def filled(text: str, depth: int) -> st.SearchStrategy[str]:
    parts = text.replace("}", "{").split("{")
    arguments = [st.one_of(expressions(p, 0), expressions(p, depth)) for p in parts[1::2]]

    def join(values: tuple[str, ...]) -> str:
        pairs = zip(parts[::2], [*values, ""], strict=True)
        return "".join(before + value for before, value in pairs)

    return st.tuples(*arguments).map(join)


ANY = st.sampled_from(sorted(set(COLUMNS) - {"UNIT"})).flatmap(
    lambda wanted: expressions(wanted, 3)
)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    source = compile_text(SOURCE).sources[0]
    schema = pa.schema([pa.field(c.name, c.type.arrow()) for c in source.columns])
    return spark.createDataFrame(pa.Table.from_pylist([ROW], schema=schema))


@settings(max_examples=40)
@given(ANY)
def test_spark_accepts_it(frame: DataFrame, expression: str) -> None:
    text = expression.format(**{n: n for n in ROW})
    try:
        topology = compile_text(f"{SOURCE}CREATE STREAM o AS SELECT {text} AS c FROM s "
                                "PARTITION BY NULL;")  # fmt: skip
    except InvalidStatement:
        return
    step = topology.queries[0].step
    assert isinstance(step, ProjectStep)
    output = step.outputs[0]
    text = output.expression.canonical
    register_calls(frame.sparkSession, [text])
    found = frame.selectExpr(f"{text} AS c").schema["c"].dataType.simpleString()
    assert found == output.column.type.spark().lower().replace("`", "").replace(", ", ",")


@settings(max_examples=100)
@given(ANY)
def test_duckdb_evaluates_it(expression: str) -> None:
    text = expression.format(**{n: f"LATEST_BY_OFFSET({n}, false)" for n in ROW})
    try:
        topology = compile_text(f"{SOURCE}CREATE TABLE o AS SELECT K, COUNT(*) AS N, {text} AS c "
                                "FROM s GROUP BY K;")  # fmt: skip
    except InvalidStatement:
        return
    step = topology.queries[0].step
    assert isinstance(step, AggregateStep)
    columns: dict[str, pa.Array] = {"K": pa.array([1, 2], pa.int32())}
    for call in step.aggregates:
        value: Any = ROW[call.args[0].ref or ""] if call.args else 1
        columns[call.name] = pa.array([value, None], call.type.arrow())
    result = last_value(step, columns)
    assert result.type == step.outputs[-1].column.type.arrow()
