"""Parses the text that a user typed for a key column."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from holdfast.errors import Refused
from holdfast.types.schema import Base, Column

__all__ = ["typed"]


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _millis(text: str) -> int:
    of_day = time.fromisoformat(text)
    minutes = of_day.hour * 60 + of_day.minute
    return (minutes * 60 + of_day.second) * 1000 + of_day.microsecond // 1000


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_TYPED: dict[Base, Callable[[str], Any]] = {
    Base.STRING: str,
    Base.BOOLEAN: _boolean,
    Base.INTEGER: int,
    Base.BIGINT: int,
    Base.DOUBLE: float,
    Base.DECIMAL: Decimal,
    Base.BYTES: _bytes,
    Base.DATE: date.fromisoformat,
    Base.TIME: _millis,
    Base.TIMESTAMP: _moment,
}


def typed(text: str, column: Column) -> Any:
    """The value of `text` in `column`, as `ServedTable.key_of` takes it.

    Raises:
        Refused: the text is not of the column's type.
    """
    reader = _TYPED.get(column.type.base)
    if reader is None:
        raise Refused(
            f"{column.name} is {column.type}: such a key cannot be typed here.",
            action="use the SQL page",
        )
    try:
        return reader(text)
    except (ValueError, KeyError, ArithmeticError) as error:
        raise Refused(
            f"{text[:100]!r} is not of the type {column.type} of {column.name}."
        ) from error
