"""ksqlDB's numeric functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.sql.expressions.engines import DUCKDB
from holdfast.sql.expressions.type_rules import common_type
from holdfast.sql.functions.signatures import (
    Call,
    Overload,
    anew,
    either,
    fill,
    fn,
    is_whole,
    py,
    whole,
)
from holdfast.types.columns.schema import DOUBLE, Base, SqlType

__all__ = ["NUMERIC"]

_PLACES_MAX = 6  # decimal places that exact rounding goes to; DECIMAL(30, 12) * 10^6 still fits
_EXACT = "CAST({x} AS DECIMAL(30, 12))"


def _same(given: Sequence[SqlType]) -> SqlType:
    return given[0]


def _rounded_decimal(given: Sequence[SqlType]) -> SqlType:
    whole = max(1, given[0].precision - given[0].scale)
    return SqlType(Base.DECIMAL, precision=whole, scale=0)


def _scaled(call: Call, inner: str) -> str | None:
    """Round a DOUBLE at a literal number of few places by way of whole numbers.

    Decimal digits are what the user sees: 2.675 rounds to 2.68 though its binary value is less.
    """
    x, places = call.args[0].sql, call.constant(1)
    if not isinstance(places, int) or not 0 <= places <= _PLACES_MAX:
        return None
    factor = str(10**places)
    whole = inner.replace("{v}", f"{_EXACT.replace('{x}', x)} * {factor}")
    divisor = call.engine.double(f"{factor}.0E0")
    exact = f"CAST({whole} AS DOUBLE) / {divisor}"
    return f"CASE WHEN abs({x}) < {call.engine.double('1E15')} THEN {exact} ELSE {x} END"


def _round(call: Call) -> str | None:
    return _scaled(call, "floor({v} + 0.5)")


def _trunc_whole(call: Call) -> str:
    x = call.args[0].sql
    return f"CAST(sign({x}) * floor(abs({x})) AS {call.engine.type_name(call.result)})"


def _trunc(call: Call) -> str | None:
    # Spark has no trunc for numbers: the sign times the floor of the magnitude.
    inner = "trunc({v})" if call.engine is DUCKDB else "(sign({v}) * floor(abs({v})))"
    return _scaled(call, inner)


_DOUBLE_TO_DOUBLE = (
    "ACOS", "ASIN", "ATAN", "CBRT", "COS", "COSH", "COT", "DEGREES", "RADIANS", "SIN",
    "SINH", "SQRT", "TAN", "TANH",
)  # fmt: skip
_HALF_CHORD = (
    "power(sin(radians({2} - {0}) / 2), 2)"
    " + power(sin(radians({3} - {1}) / 2), 2) * cos(radians({0})) * cos(radians({2}))"
)
_ON_EARTH = "abs({0}) <= 90 AND abs({2}) <= 90 AND abs({1}) <= 180 AND abs({3}) <= 180"
_DISTANCE = f"CASE WHEN {_ON_EARTH} THEN 2 * asin(sqrt({_HALF_CHORD})) * {{radius}} END"
_UNIT = "lower(trim(coalesce({4}, '')))"
_RADIUS = (
    f"CASE WHEN {_UNIT} IN ('mi', 'mile', 'miles') THEN 3959 WHEN {_UNIT} IN "
    "('', 'km', 'kilometer', 'kilometers', 'kilometre', 'kilometres') THEN 6371 END"
)
_KM = _DISTANCE.replace("{radius}", "6371")
_IN_UNITS = _DISTANCE.replace("{radius}", f"({_RADIUS})")

_NAN = "CAST('NaN' AS DOUBLE)"
_LN = (
    "(CASE WHEN {x} > 0 THEN ln({x}) WHEN {x} = 0 THEN CAST('-Infinity' AS DOUBLE) "
    f"WHEN {{x}} IS NOT NULL THEN {_NAN} END)"
)
_LN_0, _LN_1 = (_LN.replace("{x}", f"{{{i}}}") for i in (0, 1))
_LOG = (
    f"CASE WHEN {{0}} <= 0 OR {{0}} = 1 THEN CASE WHEN {{1}} IS NOT NULL THEN {_NAN} END "
    f"ELSE {_LN_1} / ln({{0}}) END"
)
# Where DuckDB fails, and Java has a number for it.
_GUARDED = {
    "ACOS": f"CASE WHEN abs({{0}}) > 1 THEN {_NAN} ELSE acos({{0}}) END",
    "ASIN": f"CASE WHEN abs({{0}}) > 1 THEN {_NAN} ELSE asin({{0}}) END",
    "COT": "CASE WHEN {0} = 0 THEN CAST(1 AS DOUBLE) / {0} ELSE cot({0}) END",
    "SQRT": f"CASE WHEN {{0}} < 0 THEN {_NAN} ELSE sqrt({{0}}) END",
}

_COMPARED = (
    "INTEGER", "BIGINT", "DECIMAL", "DOUBLE", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP",
)  # fmt: skip


def _widest(given: Sequence[SqlType]) -> SqlType:
    return common_type([*given, SqlType(Base.DECIMAL, precision=1)]) or given[0]


def _abs(call: Call) -> str:
    text = call.args[0].sql
    if not is_whole(call):
        return f"abs({text})"
    # The least number is its own magnitude, as in Java.
    negative = DUCKDB.negated(text, call.result)
    return f"CASE WHEN {text} < 0 THEN {negative} ELSE {text} END"


def _to_whole(name: str) -> Callable[[Call], str]:
    """CEIL or FLOOR in DuckDB; of a DOUBLE by way of BIGINT, as in Spark."""

    def rendering(call: Call) -> str:
        if is_whole(call):
            return call.args[0].sql
        if call.result == DOUBLE:
            return f"CAST({whole(f'{name}({{0}})')(call)} AS DOUBLE)"
        return fill(f"CAST({name}({{0}}) AS {{r}})", call)

    return rendering


def _extreme(call: Call) -> str:
    """GREATEST or LEAST; Spark wants two arguments at least."""
    args = [a.sql for a in call.args]
    return f"{call.name.lower()}({', '.join(args * 2 if len(args) == 1 else args)})"


NUMERIC: tuple[Overload, ...] = (
    fn("ABS(N) -> N", "abs({0})", _abs),
    *(
        fn(
            f"{name}(DOUBLE) -> DOUBLE",
            f"{name.lower()}({{0}})",
            _GUARDED.get(name, f"{name.lower()}({{0}})"),
        )
        for name in _DOUBLE_TO_DOUBLE
    ),
    fn("ATAN2(DOUBLE, DOUBLE) -> DOUBLE", "atan2({0}, {1})", "atan2({0} + 0, {1} + 0)"),
    fn("CEIL(N) -> N", "CAST(ceil({0}) AS {r})", _to_whole("ceil")),
    fn("FLOOR(N) -> N", "CAST(floor({0}) AS {r})", _to_whole("floor")),
    fn("GEO_DISTANCE(DOUBLE, DOUBLE, DOUBLE, DOUBLE) -> DOUBLE", _KM, _KM),
    fn(
        "GEO_DISTANCE(DOUBLE, DOUBLE, DOUBLE, DOUBLE, STRING) -> DOUBLE",
        _IN_UNITS,
        _IN_UNITS,
    ),
    *(
        fn(
            f"{name}({kind}...) -> {kind}",
            _extreme,
            _extreme,
            _widest if kind == "DECIMAL" else None,
        )
        for name in ("GREATEST", "LEAST")
        for kind in _COMPARED
    ),
    # Spark's are strict ones, which differ from Java's ordinary ones in the last digit.
    fn("EXP(DOUBLE) -> DOUBLE", py("EXP"), "exp({0})"),
    fn("LN(DOUBLE) -> DOUBLE", py("LOG"), _LN_0),
    fn("LOG(DOUBLE) -> DOUBLE", py("LOG"), _LN_0),
    fn("LOG(DOUBLE, DOUBLE) -> DOUBLE", py("LOG_OF"), _LOG),
    fn("PI() -> DOUBLE", "pi()", "pi()"),
    fn("POWER(DOUBLE, DOUBLE) -> DOUBLE", "power({0}, {1})", py("POWER")),
    fn("RANDOM() -> DOUBLE", "rand()", anew("RANDOM"), deterministic=False),
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
        whole("floor({0} + CAST(0.5 AS DOUBLE))"),
    ),
    fn(
        "ROUND(DECIMAL, INTEGER) -> DECIMAL",
        py("ROUND"),
        py("ROUND"),
        _same,
    ),
    fn(
        "ROUND(DOUBLE, INTEGER) -> DOUBLE",
        either(_round, py("ROUND")),
        either(_round, py("ROUND")),
    ),
    fn("SIGN(DOUBLE) -> INTEGER", "CAST(sign({0}) AS INT)", "CAST(sign({0}) AS INTEGER)"),
    fn("TRUNC(BIGINT) -> BIGINT", "{0}", "{0}"),
    fn("TRUNC(DOUBLE) -> BIGINT", "CAST({0} AS BIGINT)", whole("{0}")),
    fn("TRUNC(DECIMAL) -> DECIMAL", _trunc_whole, _trunc_whole, _rounded_decimal),
    fn("TRUNC(DECIMAL, INTEGER) -> DECIMAL", py("TRUNC"), py("TRUNC"), _same),
    fn(
        "TRUNC(DOUBLE, INTEGER) -> DOUBLE",
        either(_trunc, py("TRUNC")),
        either(_trunc, py("TRUNC")),
    ),
)
