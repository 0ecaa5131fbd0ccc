"""Literals, and the dates that event times are compared with."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from sqlglot import exp

from holdfast.sql.expressions.engines import Engine
from holdfast.sql.expressions.type_rules import decimal_like
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.parse.script import Script, start_of
from holdfast.tasks.evaluate.java_doubles import java_double
from holdfast.types.columns.schema import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING

__all__ = ["event_time_ms", "is_literal", "literal", "literal_text"]

_INTEGER_MAX = 2**31 - 1
_BIGINT_MAX = 2**63 - 1
_PARTIAL = re.compile(
    r"(?P<part>\d{4}(?:-\d{2})?)"
    r"|(?P<date>\d{4}-\d{2}-\d{2})(?:T(?P<time>[0-9:.]{0,12})(?:Z|(?P<zone>[+-]\d{2}:?\d{2}))?)?"
)
_DATE, _TIME, _DAYS_END = "0000-01-01", "00:00:00.000", "24:00:00.000"
_DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_literal(node: exp.Expr) -> bool:
    """Whether it is a literal, a number with its sign."""
    inner = node.this if isinstance(node, exp.Neg) else node
    return isinstance(inner, (exp.Literal, exp.Boolean))


def literal_text(node: exp.Expr) -> str:
    """A literal as Java prints its value."""
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    inner = node.this if isinstance(node, exp.Neg) else node
    text = f"{'-' if node is not inner else ''}{inner.this}"
    if inner.is_string:
        return text
    if "e" in text.lower():
        return java_double(float(text))
    return format(Decimal(text), "f")


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
        raise script.invalid(start_of(node), f"Invalid numeric literal: {digits}") from None


def _number(engine: Engine, digits: str) -> Typed:
    if "e" in digits.lower():
        text = engine.double(digits.upper())
        return Typed(DOUBLE, _operand(text), constant=(float(digits),))
    if "." in digits:
        number = Decimal(digits)
        decimal = decimal_like(number)
        text = engine.decimal(format(number, "f"), decimal)
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

    2024-01-31T24 is the end of that day, as in Java.  In UTC unless the text carries an offset;
    None when it is no date.
    """
    found = _PARTIAL.fullmatch(text)
    if found is None:
        return None
    date = found["date"] or found["part"]
    time, zone = found["time"] or "", found["zone"] or ""
    clock = f"{time}{_TIME[len(time) :]}"
    ends_day = clock == _DAYS_END
    full = f"{date}{_DATE[len(date) :]}T{_TIME if ends_day else clock}{zone}"
    try:
        moment = datetime.fromisoformat(full)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1) + (_DAY_MS if ends_day else 0)
