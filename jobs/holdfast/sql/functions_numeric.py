"""ksqlDB's numeric functions."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.sql.engines import DUCKDB
from holdfast.sql.functions import Call, Overload, fn
from holdfast.types.schema import Base, SqlType

__all__ = ["NUMERIC"]

_PLACES_MAX = 6  # decimal places that exact rounding goes to; DECIMAL(30, 12) * 10^6 still fits
_EXACT = "CAST({x} AS DECIMAL(30, 12))"


def _same(given: Sequence[SqlType]) -> SqlType:
    return given[0]


def _rounded_decimal(given: Sequence[SqlType]) -> SqlType:
    whole = max(1, given[0].precision - given[0].scale)
    return SqlType(Base.DECIMAL, precision=whole, scale=0)


def _scaled(call: Call, inner: str, fallback: str | None) -> str | None:
    """Round a DOUBLE at a literal number of places by way of whole numbers.

    Decimal digits are what the user sees: 2.675 rounds to 2.68 though its binary value is less.
    """
    x, places = call.args[0].sql, call.constant(1)
    if not isinstance(places, int) or not 0 <= places <= _PLACES_MAX:
        return fallback
    factor = str(10**places)
    whole = inner.replace("{v}", f"{_EXACT.replace('{x}', x)} * {factor}")
    divisor = call.engine.double(f"{factor}.0E0")
    exact = f"CAST({whole} AS DOUBLE) / {divisor}"
    return f"CASE WHEN abs({x}) < {call.engine.double('1E15')} THEN {exact} ELSE {x} END"


def _round(call: Call) -> str | None:
    x, places = (a.sql for a in call.args)
    if isinstance(call.constant(1), int):
        return _scaled(call, "floor({v} + 0.5)", f"round({x}, {places})")
    # Spark's own round takes a literal only.
    factor = f"power({call.engine.double('1E1')}, {places})"
    return f"(floor({x} * {factor} + {call.engine.double('5E-1')}) / {factor})"


def _round_decimal(call: Call) -> str | None:
    if not isinstance(call.constant(1), int):
        return None
    x, places = (a.sql for a in call.args)
    return f"CAST(round({x}, {places}) AS {call.engine.type_name(call.result)})"


def _trunc(call: Call) -> str | None:
    # Spark has no trunc for numbers: the sign times the floor of the magnitude.
    inner = "trunc({v})" if call.engine is DUCKDB else "(sign({v}) * floor(abs({v})))"
    return _scaled(call, inner, None)


_DOUBLE_TO_DOUBLE = (
    "ACOS", "ASIN", "ATAN", "CBRT", "COS", "COSH", "COT", "DEGREES", "EXP", "RADIANS", "SIN",
    "SINH", "SQRT", "TAN", "TANH",
)  # fmt: skip
_HAVERSINE = (
    "(2 * {radius} * asin(sqrt("
    "power(sin(radians({2} - {0}) / 2), 2)"
    " + cos(radians({0})) * cos(radians({2})) * power(sin(radians({3} - {1}) / 2), 2))))"
)
_KM = _HAVERSINE.replace("{radius}", "6371")
_MILES = _HAVERSINE.replace("{radius}", "3959")


def _distance(call: Call) -> str | None:
    unit = str(call.constant(4) or "").upper()
    template = _KM if unit.startswith("K") else _MILES if unit.startswith("M") else None
    if template is None:
        return None
    for index, arg in enumerate(call.args[:4]):
        template = template.replace(f"{{{index}}}", arg.sql)
    return template


NUMERIC: tuple[Overload, ...] = (
    fn("ABS(N) -> N", "abs({0})", "abs({0})"),
    *(
        fn(f"{name}(DOUBLE) -> DOUBLE", f"{name.lower()}({{0}})", f"{name.lower()}({{0}})")
        for name in _DOUBLE_TO_DOUBLE
    ),
    fn("ATAN2(DOUBLE, DOUBLE) -> DOUBLE", "atan2({0}, {1})", "atan2({0}, {1})"),
    fn("CEIL(N) -> N", "CAST(ceil({0}) AS {r})", "CAST(ceil({0}) AS {r})"),
    fn("FLOOR(N) -> N", "CAST(floor({0}) AS {r})", "CAST(floor({0}) AS {r})"),
    fn("GEO_DISTANCE(DOUBLE, DOUBLE, DOUBLE, DOUBLE) -> DOUBLE", _KM, _KM),
    fn(
        "GEO_DISTANCE(DOUBLE, DOUBLE, DOUBLE, DOUBLE, STRING) -> DOUBLE",
        _distance,
        _distance,
    ),
    fn("GREATEST(T, T...) -> T", "greatest({*})", "greatest({*})"),
    fn("LEAST(T, T...) -> T", "least({*})", "least({*})"),
    fn("LN(DOUBLE) -> DOUBLE", "ln({0})", "CASE WHEN {0} > 0 THEN ln({0}) END"),
    fn("LOG(DOUBLE) -> DOUBLE", "log10({0})", "CASE WHEN {0} > 0 THEN log10({0}) END"),
    fn(
        "LOG(DOUBLE, DOUBLE) -> DOUBLE",
        "log({0}, {1})",
        "CASE WHEN {0} > 0 AND {1} > 0 THEN ln({1}) / ln({0}) END",
    ),
    fn("PI() -> DOUBLE", "pi()", "pi()"),
    fn("POWER(DOUBLE, DOUBLE) -> DOUBLE", "power({0}, {1})", "power({0}, {1})"),
    fn("RANDOM() -> DOUBLE", "rand()"),
    fn("ROUND(BIGINT) -> BIGINT", "{0}", "{0}"),
    fn(
        "ROUND(DECIMAL) -> DECIMAL",
        "CAST(floor({0} + 0.5) AS {r})",
        "CAST(floor({0} + 0.5) AS {r})",
        _rounded_decimal,
    ),
    fn(
        "ROUND(DOUBLE) -> BIGINT",
        "CAST(floor({0} + 0.5D) AS BIGINT)",
        "CAST(floor({0} + CAST(0.5 AS DOUBLE)) AS BIGINT)",
    ),
    fn(
        "ROUND(DECIMAL, INTEGER) -> DECIMAL",
        _round_decimal,
        _round_decimal,
        _same,
    ),
    fn("ROUND(DOUBLE, INTEGER) -> DOUBLE", _round, _round),
    fn("SIGN(DOUBLE) -> INTEGER", "CAST(sign({0}) AS INT)", "CAST(sign({0}) AS INTEGER)"),
    fn("TRUNC(BIGINT) -> BIGINT", "{0}", "{0}"),
    fn("TRUNC(DOUBLE) -> BIGINT", "CAST({0} AS BIGINT)", "CAST(trunc({0}) AS BIGINT)"),
    fn("TRUNC(DOUBLE, INTEGER) -> DOUBLE", _trunc, _trunc),
)
