"""Functions over numbers, exact in their decimal digits."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.java_doubles import java_double
from holdfast.tasks.functions.base import PythonFunction, Types
from holdfast.types.columns.schema import INTEGER

__all__ = ["NUMBERS"]

_DIGITS = 400  # a DOUBLE has up to 309 before the point


def _rounded(value: Decimal | float, places: int, *, up: bool) -> Decimal:
    """Rounds to `places`: towards zero, or (`up`) to the nearest, halves to the greater number."""
    exact = value if isinstance(value, Decimal) else Decimal(repr(value))
    half = ROUND_HALF_UP if exact > 0 else ROUND_HALF_DOWN
    with localcontext() as context:
        context.prec = _DIGITS
        return exact.quantize(Decimal(1).scaleb(-places), half if up else ROUND_DOWN)


def _round(value: Any, places: int) -> Any:
    return _like(value, _rounded(value, places, up=True))


def _trunc(value: Any, places: int) -> Any:
    return _like(value, _rounded(value, places, up=False))


def _like(value: Any, result: Decimal) -> Any:
    return result if isinstance(value, Decimal) else float(result) + 0.0


def _power(base: float, exponent: float) -> float:
    if abs(base) == 1 and not math.isfinite(exponent):
        return math.nan  # C gives 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.copysign(math.inf, -1 if base < 0 and exponent % 2 == 1 else 1)
    except ValueError:
        return math.inf if base == 0 else math.nan


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _log(value: float) -> float:
    if value > 0:
        return math.log(value)
    return -math.inf if value == 0 else math.nan


def _log_of(base: float, value: float) -> float:
    return math.nan if base <= 0 or base == 1 else _log(value) / math.log(base)


def _pmod(value: int, by: int) -> int:
    """Spark's remainder: positive if the divisor is; its sum with the divisor wraps around."""
    rest = _remainder(value, by)
    return rest if rest >= 0 else _remainder((rest + by + 2**63) % 2**64 - 2**63, by)


def _remainder(value: int, by: int) -> int:
    """The remainder with the sign of the value, as Java has it."""
    rest = abs(value) % abs(by)
    return -rest if value < 0 else rest


def _whole(types: Types, value: float) -> int:
    """A DOUBLE as a whole number like Java's: NaN is 0, what is too large the largest."""
    low, high = _bounds(types)
    if math.isnan(value):
        return 0
    return low if value <= low else high if value >= high else int(value)


def _whole_column(types: Types, column: pa.Array) -> pa.Array:
    low, high = _bounds(types)
    number = pc.trunc(pc.if_else(pc.is_nan(column), 0.0, column))
    over, under = pc.greater_equal(number, float(high)), pc.less_equal(number, float(low))
    inside = pc.if_else(pc.or_(over, under), 0.0, number).cast(pa.int64())
    return pc.if_else(over, high, pc.if_else(under, low, inside)).cast(types.result.arrow())


def _bounds(types: Types) -> tuple[int, int]:
    bits = 31 if types.result == INTEGER else 63
    return -(2**bits), 2**bits - 1


def _to_decimal(types: Types, value: float) -> Decimal:
    """A DOUBLE by the digits that it is shown with, as Java reads them."""
    return _fitted(types, Decimal(repr(value)))


def _fitted(types: Types, exact: Decimal) -> Decimal:
    """A number rounded to the result's scale; an error if it has too many digits."""
    with localcontext() as context:
        context.prec = _DIGITS
        return exact.quantize(Decimal(1).scaleb(-types.result.scale), ROUND_HALF_UP)


def _decimals(operate: Callable[[Decimal, Decimal], Decimal], digits: int) -> Callable[..., Any]:
    """Arithmetic as Spark does it: to so many digits first, then to the result's scale."""

    def body(types: Types, left: Any, right: Any) -> Decimal:
        with localcontext() as context:
            context.prec, context.rounding = digits, ROUND_HALF_UP
            made = operate(Decimal(left), Decimal(right))
        return _fitted(types, made)

    return body


def _divided(left: Decimal, right: Decimal) -> Decimal:
    return (left / right).quantize(Decimal(1).scaleb(-_QUOTIENT_SCALE))


_EXACT = 160  # digits, more than any sum or quotient of two DECIMALs has
_PRODUCT_DIGITS, _QUOTIENT_SCALE = 39, 39

NUMBERS = (
    PythonFunction("DECIMAL_ADD", _decimals(operator.add, _EXACT), typed=True),
    PythonFunction("DECIMAL_DIVIDE", _decimals(_divided, _EXACT), typed=True),
    PythonFunction("DECIMAL_MULTIPLY", _decimals(operator.mul, _PRODUCT_DIGITS), typed=True),
    PythonFunction("DECIMAL_OF", _to_decimal, typed=True),
    PythonFunction("DECIMAL_SUBTRACT", _decimals(operator.sub, _EXACT), typed=True),
    PythonFunction("DOUBLE_TEXT", java_double),  # for casts
    PythonFunction("EXP", _exp),
    PythonFunction("HYPOT", math.hypot),
    PythonFunction("LOG", _log),
    PythonFunction("LOG_OF", _log_of),
    PythonFunction("PMOD", _pmod),
    PythonFunction("POWER", _power),
    PythonFunction("RANDOM", lambda _row: random.random()),
    PythonFunction("ROUND", _round),
    PythonFunction("TRUNC", _trunc),
    PythonFunction("WHOLE", _whole, typed=True, columns=_whole_column),
)
