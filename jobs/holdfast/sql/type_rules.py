"""ksqlDB's type rules: names, widening, and the types of arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.sql.script import did_you_mean
from holdfast.types.schema import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, Base, SqlType

__all__ = ["arithmetic_type", "common_type", "converts_to", "decimal_of", "simple_type"]

_SIMPLE: dict[str, SqlType] = {
    "BOOLEAN": BOOLEAN,
    "INT": INTEGER,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "VARCHAR": STRING,
    "BYTES": SqlType(Base.BYTES),
    "DATE": SqlType(Base.DATE),
    "TIME": SqlType(Base.TIME),
    "TIMESTAMP": SqlType(Base.TIMESTAMP),
}
_NESTED = ("ARRAY", "MAP", "STRUCT", "DECIMAL")
_FROM_OTHERS = {"FLOAT": "DOUBLE", "REAL": "DOUBLE", "LONG": "BIGINT", "TEXT": "STRING",
                "BOOL": "BOOLEAN", "BINARY": "BYTES", "SMALLINT": "INTEGER", "TINYINT": "INTEGER",
                "NUMERIC": "DECIMAL", "DATETIME": "TIMESTAMP", "CHAR": "STRING"}  # fmt: skip
_WIDTH = {Base.INTEGER: 0, Base.BIGINT: 1, Base.DECIMAL: 2, Base.DOUBLE: 3}
_PRECISION_MAX = 38
_DIVISION_SCALE_MIN = 6


def simple_type(name: str) -> SqlType | str:
    """The type called `name` (upper-case), or the message that says there is none."""
    if name in _SIMPLE:
        return _SIMPLE[name]
    other = _FROM_OTHERS.get(name)
    hint = f"did you mean {other}?" if other else did_you_mean(name, [*_SIMPLE, *_NESTED])
    return f"unknown type {name}" + (f": {hint}" if hint else "")


def decimal_of(sql_type: SqlType) -> SqlType:
    """The DECIMAL that holds every value of an INTEGER, BIGINT or DECIMAL."""
    if sql_type.base is Base.INTEGER:
        return SqlType(Base.DECIMAL, precision=10, scale=0)
    if sql_type.base is Base.BIGINT:
        return SqlType(Base.DECIMAL, precision=19, scale=0)
    return sql_type


def _decimal(precision: int, scale: int) -> SqlType:
    # Where the digits do not fit, the whole part wins, as in Spark.
    if precision > _PRECISION_MAX:
        scale = max(min(scale, _DIVISION_SCALE_MIN), scale - (precision - _PRECISION_MAX))
    return SqlType(Base.DECIMAL, precision=min(precision, _PRECISION_MAX), scale=scale)


def _wider(left: SqlType, right: SqlType) -> SqlType:
    wide = max(left, right, key=lambda t: _WIDTH[t.base])
    if wide.base is not Base.DECIMAL:
        return wide
    a, b = decimal_of(left), decimal_of(right)
    scale = max(a.scale, b.scale)
    return _decimal(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def _common(left: SqlType, right: SqlType) -> SqlType | None:
    if left == right:
        return left
    if left.numeric and right.numeric:
        return _wider(left, right)
    nested = left.base is right.base and left.base in (Base.ARRAY, Base.MAP)
    if nested and left.element is not None and right.element is not None:
        element = _common(left.element, right.element)
        return None if element is None else SqlType(left.base, element=element)
    return None


def common_type(types: Iterable[SqlType | None]) -> SqlType | None:
    """The one type that all (None is a NULL literal) convert to without a CAST, if there is one."""
    result: SqlType | None = None
    for sql_type in types:
        if sql_type is None:
            continue
        result = sql_type if result is None else _common(result, sql_type)
        if result is None:
            return None
    return result


def converts_to(given: SqlType | None, wanted: SqlType) -> bool:
    """Whether a value converts without a CAST: NULL to anything, numbers to wider ones."""
    return given is None or _common(given, wanted) == wanted


def arithmetic_type(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """The type of `left operator right` (+ - * / %) over two numbers.

    Whole numbers stay whole (7 / 2 is 3), DOUBLE wins over everything, DECIMAL follows the
    SQL standard's precision rules.
    """
    if Base.DECIMAL not in (left.base, right.base) or Base.DOUBLE in (left.base, right.base):
        return _wider(left, right)
    a, b = decimal_of(left), decimal_of(right)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    if operator in "+-":
        scale = max(a.scale, b.scale)
        return _decimal(whole + scale + 1, scale)
    if operator == "*":
        return _decimal(a.precision + b.precision + 1, a.scale + b.scale)
    if operator == "/":
        scale = max(_DIVISION_SCALE_MIN, a.scale + b.precision + 1)
        return _decimal(a.precision - a.scale + b.scale + scale, scale)
    scale = max(a.scale, b.scale)
    return _decimal(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)
