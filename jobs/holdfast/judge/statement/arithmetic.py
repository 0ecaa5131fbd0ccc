"""The judge's own arithmetic: aggregates as documented for ksqlDB and Java, in DuckDB SQL.

DuckDB's own differ: its sums do not wrap, its sum of decimals fails beyond 38 digits, it treats
-0.0 and 0.0 as one value, and it makes one letter of one letter in upper case.  In Java whole
numbers wrap; `Double.equals` distinguishes the zeros and every NaN equal; a sum of decimals that
its type cannot hold is NULL (ADR 39).
"""

from __future__ import annotations

from decimal import Context, Decimal

import duckdb

from holdfast.types.columns.schema import Base, SqlType

__all__ = ["distinct_doubles", "in_case", "register", "sum_of", "wrapped"]

_DECIMAL_SUM = "judge_decimal_sum"
_ANY_WIDTH = Context(prec=200)


def wrapped(sql: str, bits: int) -> str:
    """A whole number wrapped to this many bits, as in Java."""
    whole, half = f"{1 << bits}::HUGEINT", f"{1 << bits - 1}::HUGEINT"
    return f"((({sql} + {half}) % {whole} + {whole}) % {whole} - {half})"


def sum_of(value: str, kind: SqlType) -> str:
    """SUM of values of a type; 0 without any value."""
    if kind.base is Base.DECIMAL:
        shown = f"{_DECIMAL_SUM}(list(CAST({value} AS VARCHAR)), {kind.precision}, {kind.scale})"
        return f"CAST({shown} AS DECIMAL({kind.precision}, {kind.scale}))"
    total = f"coalesce(sum({value}), 0)"
    if kind.base is Base.DOUBLE:
        return total
    return wrapped(total, 32 if kind.base is Base.INTEGER else 64)


def in_case(case: str, text: str) -> str:
    """Text in `upper` or `lower` case; letters that are not ASCII by Unicode's full rules."""
    ascii_only = f"strlen({text}) = length({text})"
    return f"CASE WHEN {ascii_only} THEN {case}({text}) ELSE judge_{case}({text}) END"


def distinct_doubles(value: str) -> str:
    """A list of the doubles distinct by `Double.equals`; without NULL."""
    return f"list_transform(list(DISTINCT CAST({value} AS VARCHAR)), t -> CAST(t AS DOUBLE))"


def register(engine: duckdb.DuckDBPyConnection) -> None:
    """Registers functions that DuckDB lacks."""
    engine.create_function(
        _DECIMAL_SUM, _decimal_sum, ["VARCHAR[]", "INTEGER", "INTEGER"], "VARCHAR",
        null_handling="special",
    )  # type: ignore[call-overload]  # fmt: skip
    for name, function in (("judge_upper", str.upper), ("judge_lower", str.lower)):
        engine.create_function(name, function, ["VARCHAR"], "VARCHAR")


def _decimal_sum(values: list[str | None] | None, precision: int, scale: int) -> str | None:
    total = Decimal(0)
    for value in values or ():
        total = _ANY_WIDTH.add(total, Decimal(value or 0))
    return format(total, "f") if abs(total) < Decimal(10) ** (precision - scale) else None
