"""The judge's own arithmetic: aggregates by the documentation of ksqlDB and of Java, in DuckDB SQL.

DuckDB's are others: its sums do not wrap, its sum of decimals fails beyond 38 digits, and it takes
-0.0 and 0.0 for one value.  Java's whole numbers wrap; `Double.equals` tells zeros apart and finds
every NaN equal; a sum of decimals that its type cannot hold is NULL (ADR 39).
"""

from __future__ import annotations

from decimal import Context, Decimal

import duckdb

from holdfast.types.schema import Base, SqlType

__all__ = ["distinct_doubles", "register", "sum_of", "wrapped"]

_DECIMAL_SUM = "judge_decimal_sum"
_ANY_WIDTH = Context(prec=200)


def wrapped(sql: str, bits: int) -> str:
    """A whole number as Java's type of so many bits keeps it."""
    whole, half = f"{1 << bits}::HUGEINT", f"{1 << bits - 1}::HUGEINT"
    return f"((({sql} + {half}) % {whole} + {whole}) % {whole} - {half})"


def sum_of(value: str, kind: SqlType) -> str:
    """SUM of values of a type; 0 of none."""
    if kind.base is Base.DECIMAL:
        shown = f"{_DECIMAL_SUM}(list(CAST({value} AS VARCHAR)), {kind.precision}, {kind.scale})"
        return f"CAST({shown} AS DECIMAL({kind.precision}, {kind.scale}))"
    total = f"coalesce(sum({value}), 0)"
    if kind.base is Base.DOUBLE:
        return total
    return wrapped(total, 32 if kind.base is Base.INTEGER else 64)


def distinct_doubles(value: str) -> str:
    """A list of the doubles that `Double.equals` tells apart, without NULL where there is none."""
    return f"list_transform(list(DISTINCT CAST({value} AS VARCHAR)), t -> CAST(t AS DOUBLE))"


def register(engine: duckdb.DuckDBPyConnection) -> None:
    """Makes known to DuckDB what it cannot say itself."""
    engine.create_function(
        _DECIMAL_SUM, _decimal_sum, ["VARCHAR[]", "INTEGER", "INTEGER"], "VARCHAR",
        null_handling="special",
    )  # type: ignore[call-overload]  # fmt: skip


def _decimal_sum(values: list[str | None] | None, precision: int, scale: int) -> str | None:
    total = Decimal(0)
    for value in values or ():
        total = _ANY_WIDTH.add(total, Decimal(value or 0))
    return format(total, "f") if abs(total) < Decimal(10) ** (precision - scale) else None
