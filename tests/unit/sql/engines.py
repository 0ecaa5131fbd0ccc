"""Evaluates an expression over rows in both engines: Spark SQL is the oracle of DuckDB."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from holdfast.sql.expressions.engines import DUCKDB, SPARK, Engine
from holdfast.sql.expressions.notes import Notes
from holdfast.sql.expressions.scope import Scope
from holdfast.sql.expressions.translator import Translator
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.parse.dialect import tokenize
from holdfast.sql.parse.expressions import ExpressionParser
from holdfast.sql.parse.script import Script
from holdfast.sql.plan.aggregate import evaluated
from holdfast.tasks.evaluate.outputs import Expressions
from holdfast.types.columns.schema import Column, SqlType
from holdfast.types.statements.expressions import Expression, NamedExpression
from tests.support.values.spark_functions import register_calls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Rows", "in_duckdb", "in_spark", "parsed_type", "same", "translated"]


def parsed_type(text: str) -> SqlType:
    """A type from its text in SQL."""
    return ExpressionParser(tokenize(text), {}).parse_type()


@dataclass(frozen=True)
class Rows:
    """Columns of one length with their types; a column's name is its name in expressions."""

    types: Mapping[str, SqlType]
    values: Mapping[str, Sequence[Any]]

    def table(self) -> pa.Table:
        """The rows in Arrow, TIMESTAMPs in UTC."""
        return pa.table(
            {n: pa.array(self.values[n], t.arrow()) for n, t in self.types.items()},
            schema=pa.schema([pa.field(n, t.arrow()) for n, t in self.types.items()]),
        )

    def at(self, index: int) -> dict[str, Any]:
        """One row, for a message."""
        return {name: values[index] for name, values in self.values.items()}


class _Columns(Scope):
    """Knows the columns of rows, and nothing else."""

    def __init__(self, engine: Engine, types: Mapping[str, SqlType]) -> None:
        self._engine = engine
        self._types = types

    def column(self, node: exp.Column, name: str, qualifier: str | None) -> Typed:
        if name not in self._types:
            raise Script("").invalid(0, f"no column {name}")
        made = self._engine.column(Column(name, self._types[name]))
        return Typed(made.type, made.sql, ref=made.ref, columns=made.columns)

    def special(self, node: exp.Expr) -> Typed | None:
        return None

    @property
    def place(self) -> str:
        return "here"

    def function_names(self) -> Sequence[str]:
        return ()


def translated(engine: Engine, text: str, types: Mapping[str, SqlType]) -> Expression:
    """The expression for an engine."""
    node = ExpressionParser(tokenize(text), {}).parse_expression()
    notes = Notes()
    made = Translator(Script(text), _Columns(engine, types), notes, engine=engine).translate(node)
    assert made.type is not None, f"{text} has no type"
    return Expression(
        made.sql,
        made.type,
        columns=tuple(notes.columns),
        ref=made.ref,
        functions=tuple(notes.functions),
    )


def in_duckdb(text: str, rows: Rows) -> list[Any]:
    """The values of an expression, one for each row, as a task evaluates it."""
    made = evaluated(translated(DUCKDB, text, rows.types))
    table = rows.table()
    frame = {name: table[name].combine_chunks() for name in table.column_names}
    return _values(Expressions([NamedExpression("c", made)]).columns(frame)[0])


def in_spark(spark: SparkSession, texts: Sequence[str], rows: Rows) -> dict[str, Any]:
    """The values of expressions in Spark SQL, in a query for all of them; or the error of one."""
    found: dict[str, Any] = {}
    made: dict[str, Expression] = {}
    frame = spark.createDataFrame(rows.table().append_column(
        "__row", pa.array(range(len(rows.table())), pa.int64())
    )).coalesce(1)  # fmt: skip
    for text in texts:
        try:
            each = translated(SPARK, text, rows.types)
            register_calls(spark, [each.sql])
            frame.selectExpr(each.sql)  # Spark analyses eagerly
            made[text] = each
        except Exception as error:  # noqa: BLE001 - shown by the expression's own test
            found[text] = error
    selected = [f"{each.sql} AS c{i}" for i, each in enumerate(made.values())]
    if not selected:
        return found
    table = frame.selectExpr("__row", *selected).toArrow().sort_by("__row")
    for i, (text, each) in enumerate(made.items()):
        found[text] = _values(table[f"c{i}"].cast(each.type.arrow()))
    return found


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python values; dates and moments as numbers, since Python's have fewer years."""
    number = {pa.date32(): pa.int32(), pa.timestamp("us", tz="UTC"): pa.int64()}
    wanted = number.get(column.type)
    return list((column if wanted is None else column.cast(wanted)).to_pylist())


def same(left: Any, right: Any, ulps: int = 0) -> bool:
    """Whether two values are one: NaN is NaN, -0.0 is not 0.0, and 1 is not TRUE.

    `ulps`: DOUBLEs may differ by so many of their last digits.
    """
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return _same_double(left, right, ulps)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k], ulps) for k in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right, [ulps] * len(left)))
    return bool(left == right) and str(left) == str(right)


def _same_double(left: float, right: float, ulps: int) -> bool:
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    a, b = (struct.unpack(">q", struct.pack(">d", v))[0] for v in (left, right))
    return bool(abs(a - b) <= ulps)
