"""Expressions as the planner makes them, for tests that build plans by hand."""

from __future__ import annotations

from dataclasses import replace

from holdfast.sql.plan.relation import read_column
from holdfast.types.columns.schema import BOOLEAN, Column, SqlType
from holdfast.types.statements.expressions import Expression, NamedExpression

__all__ = ["condition", "duckdb_column", "made", "named", "source_column"]


def source_column(column: Column, name: str = "") -> NamedExpression:
    """A column of a source, carried as it is; `name` is its new one."""
    return NamedExpression(name or column.name, read_column(column))


def duckdb_column(column: Column, ref: str = "") -> NamedExpression:
    """A column that is made of another one, `ref`, which needs no evaluation."""
    name = ref or column.name
    return NamedExpression(column.name, Expression(f'"{name}"', column.type, (name,), name))


def made(sql: str, sql_type: SqlType, *reads: str) -> Expression:
    """An expression that is more than a column."""
    return Expression(sql, sql_type, reads)


def named(sql: str, column: Column, *reads: str, released: str = "") -> NamedExpression:
    """The same under the name of a column; `released`: its text in the first release."""
    return NamedExpression(column.name, replace(made(sql, column.type, *reads), released=released))


def condition(sql: str | None, *reads: str) -> Expression | None:
    """A filter, if there is one."""
    return None if sql is None else made(sql, BOOLEAN, *reads)
