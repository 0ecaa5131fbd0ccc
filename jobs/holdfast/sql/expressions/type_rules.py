"""ksqlDB's type rules: names, widening, and the types of arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from holdfast.sql.parse.script import did_you_mean
from holdfast.types.columns.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    Base,
    Column,
    SqlType,
)

__all__ = [
    "arithmetic_type",
    "common_type",
    "converts_to",
    "decimal_like",
    "decimal_of",
    "simple_type",
]

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
_READ_FROM_TEXT = (Base.DATE, Base.TIME, Base.TIMESTAMP, Base.BYTES)
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


def decimal_like(number: Decimal) -> SqlType:
    """The DECIMAL of a number as it is written: 12.50 is DECIMAL(4, 2), 0.5 is DECIMAL(2, 1).

    Raises:
        ValueError: it has more digits than a DECIMAL holds.
    """
    _, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    precision = scale + 1 if abs(number) < 1 else len(digits) + max(0, int(exponent))
    if precision > _PRECISION_MAX:
        raise ValueError(f"{number} has {precision} digits, a DECIMAL has {_PRECISION_MAX}")
    return SqlType(Base.DECIMAL, precision=precision, scale=scale)


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
    if STRING in (left, right):
        return next((t for t in (left, right) if t.base in _READ_FROM_TEXT), None)
    if left.base is not right.base:
        return None
    return _common_struct(left, right) if left.base is Base.STRUCT else _common_parts(left, right)


def _common_parts(left: SqlType, right: SqlType) -> SqlType | None:
    if left.element is None or right.element is None:
        return None
    element, key = _common(left.element, right.element), _common(left.map_key, right.map_key)
    if element is None or key is None:
        return None
    return SqlType(left.base, element=element, key=key)


def _common_struct(left: SqlType, right: SqlType) -> SqlType | None:
    """All fields of both."""
    fields: dict[str, SqlType] = {}
    for field in left.fields + right.fields:
        joined = _common(fields[field.name], field.type) if field.name in fields else field.type
        if joined is None:
            return None
        fields[field.name] = joined
    return SqlType(Base.STRUCT, fields=tuple(Column(n, t) for n, t in fields.items()))


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
