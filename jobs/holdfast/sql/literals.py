"""Literals, and the dates that event times are compared with."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sqlglot import exp

from holdfast.sql.engines import Engine
from holdfast.sql.script import Script, start_of
from holdfast.sql.typed import Typed
from holdfast.types.schema import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, Base, SqlType

__all__ = ["event_time_ms", "literal"]

_INTEGER_MAX = 2**31 - 1
_BIGINT_MAX = 2**63 - 1
_PARTIAL = re.compile(r"\d{4}(-\d{2}(-\d{2}(T.*)?)?)?")
_COMPLETION = "0000-01-01"


def literal(engine: Engine, script: Script, node: exp.Expr, *, negative: bool = False) -> Typed:
    """A literal: 1 is INTEGER, 3000000000 BIGINT, 1.5 DECIMAL(2, 1) and 1.5E0 DOUBLE."""
    if isinstance(node, exp.Null):
        return Typed(None, "NULL", constant=(None,))
    if isinstance(node, exp.Boolean):
        return Typed(BOOLEAN, "true" if node.this else "false", constant=(bool(node.this),))
    if node.is_string:
        text = str(node.this)
        return Typed(STRING, engine.string(text), constant=(text,))
    digits = f"-{node.this}" if negative else str(node.this)
    try:
        return _number(engine, digits)
    except ValueError:
        raise script.invalid(start_of(node), f"{digits} is not a number that fits") from None


def _number(engine: Engine, digits: str) -> Typed:
    if "e" in digits.lower():
        text = engine.double(digits.upper())
        return Typed(DOUBLE, _operand(text), constant=(float(digits),))
    if "." in digits:
        whole, _, fraction = digits.lstrip("-").partition(".")
        whole, fraction = whole.lstrip("0"), fraction or "0"
        precision = max(1, len(whole) + len(fraction))
        if precision > 38:
            raise ValueError(digits)
        sign = "-" if digits.startswith("-") else ""
        text = f"{sign}{whole or '0'}.{fraction}"
        decimal = SqlType(Base.DECIMAL, precision=precision, scale=len(fraction))
        return Typed(decimal, _operand(text), constant=(float(digits),))
    value = int(digits)
    if not -_BIGINT_MAX - 1 <= value <= _BIGINT_MAX:
        raise ValueError(digits)
    fits = -_INTEGER_MAX - 1 <= value <= _INTEGER_MAX
    return Typed(INTEGER if fits else BIGINT, _operand(str(value)), constant=(value,))


def _operand(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def event_time_ms(text: str) -> int | None:
    """Milliseconds since the epoch of an ISO date or its beginning (2024, 2024-01-31T10).

    In UTC unless the text carries an offset; None when it is no date.
    """
    if not _PARTIAL.fullmatch(text):
        return None
    full = text if len(text) >= len(_COMPLETION) else text + _COMPLETION[len(text) :]
    try:
        moment = datetime.fromisoformat(full)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
