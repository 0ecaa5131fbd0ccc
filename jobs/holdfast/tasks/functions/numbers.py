"""Functions over numbers, exact in their decimal digits."""

from __future__ import annotations

import math
import random
from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from holdfast.tasks.evaluate.java_doubles import java_double
from holdfast.tasks.functions.base import PythonFunction

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


NUMBERS = (
    PythonFunction("DOUBLE_TEXT", java_double),  # for casts
    PythonFunction("EXP", _exp),
    PythonFunction("LOG", _log),
    PythonFunction("LOG_OF", _log_of),
    PythonFunction("POWER", _power),
    PythonFunction("RANDOM", lambda _row: random.random()),
    PythonFunction("ROUND", _round),
    PythonFunction("TRUNC", _trunc),
)
