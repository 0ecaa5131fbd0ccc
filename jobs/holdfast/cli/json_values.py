"""Values of rows as JSON, for every command that prints some."""

from __future__ import annotations

from decimal import Decimal

import orjson

__all__ = ["json_of"]


def json_of(value: object, option: int | None = None) -> str:
    """The JSON text: a DECIMAL is a number, with all its digits, as query servers write it."""
    return orjson.dumps(value, default=_plain, option=option).decode()


def _plain(value: object) -> object:
    return orjson.Fragment(format(value, "f")) if isinstance(value, Decimal) else str(value)
