"""Parses text to a value of a SQL type, as ksqlDB reads numbers given as text.

Values are of the form that `pyarrow.array` takes: a TIMESTAMP is an int of microseconds, a DATE an
int of days, a TIME an int of milliseconds, a DECIMAL a `Decimal` that fits.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from decimal import Decimal

from holdfast.ingest.formats.base import Undecodable
from holdfast.types.columns.schema import Base, SqlType

__all__ = [
    "Parser",
    "fit_decimal",
    "fit_integer",
    "fit_time",
    "fit_timestamp",
    "fit_unscaled",
    "parse_base64",
    "parse_decimal",
    "parse_double",
    "parse_integer",
    "parser",
]

Parser = Callable[[str], object]

_INTEGER = re.compile(r"[+-]?[0-9]{1,100}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
_DOUBLE = re.compile(_DECIMAL.pattern + "[fFdD]?")
_NAMED = {
    sign + name: float(sign + name) for sign in ("", "+", "-") for name in ("NaN", "Infinity")
}
_BITS = {Base.INTEGER: 31, Base.BIGINT: 63, Base.DATE: 31}
_DAY_MS = 86_400_000
_DAYS = "a number of days since 1970-01-01"
_MILLISECONDS = "a number of milliseconds since midnight"
_TIMESTAMP = "a number of milliseconds; declare text as STRING, with TIMESTAMP_FORMAT"
_DECIMAL_BYTES = 64  # more digits than any column holds; int() of megabytes would take minutes
_TIMESTAMP_MS = (1 << 63) // 1000  # Arrow keeps microseconds in 64 bits


def parse_integer(text: str, wanted: str = "an integer") -> int:
    """Digits with an optional sign, nothing else.

    Args:
        wanted: what it should be, for the message.

    Raises:
        Undecodable: it is something else.
    """
    if not _INTEGER.fullmatch(text):
        raise Undecodable(f"{_short(text)} is not {wanted}")
    return int(text)


def parse_double(text: str) -> float:
    """A floating-point number by the rules of Java's Double.parseDouble, without hexadecimals.

    Raises:
        Undecodable: it is something else, or beyond DOUBLE's range.
    """
    stripped = text.strip()
    if stripped in _NAMED:
        return _NAMED[stripped]
    if not _DOUBLE.fullmatch(stripped):
        raise Undecodable(f"{_short(text)} is not a number")
    value = float(stripped.rstrip("fFdD"))
    if math.isinf(value):
        raise Undecodable(f"{_short(text)} is out of DOUBLE's range")
    return value


def parse_decimal(text: str) -> Decimal:
    """A decimal number of any size.

    Raises:
        Undecodable: it is something else.
    """
    if not _DECIMAL.fullmatch(text):
        raise Undecodable(f"{_short(text)} is not a decimal number")
    return Decimal(text)


def parse_base64(text: str) -> bytes:
    """Raises `Undecodable` for anything but padded, standard base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Undecodable(f"{_short(text)} is not base64") from error


def fit_integer(value: int, base: Base) -> int:
    """Returns `value` if it is in the range of INTEGER, BIGINT or DATE.

    Raises:
        Undecodable: it is not.
    """
    bound = 1 << _BITS[base]
    if not -bound <= value < bound:
        raise Undecodable(f"{_short(str(value))} is out of {base}'s range")
    return value


def fit_time(value: int) -> int:
    """Returns milliseconds of a day; raises `Undecodable` for other numbers."""
    if not 0 <= value < _DAY_MS:
        raise Undecodable(f"{_short(str(value))} is out of TIME's range, 0 to {_DAY_MS - 1} ms")
    return value


def fit_timestamp(value: int) -> int:
    """Microseconds from milliseconds since the epoch; raises `Undecodable` out of range."""
    if not -_TIMESTAMP_MS <= value < _TIMESTAMP_MS:
        raise Undecodable(f"{_short(str(value))} ms is out of TIMESTAMP's range")
    return value * 1000


def fit_decimal(value: Decimal, type_: SqlType) -> Decimal:
    """Returns `value` if the type holds it exactly.

    Raises:
        Undecodable: it would have to be rounded, or has too many digits.
    """
    if not value:
        return Decimal(0)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise Undecodable(f"{value} is not a decimal number")
    trailing = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if exponent + trailing < -type_.scale:
        raise Undecodable(f"{_short(str(value))} does not fit {type_} without rounding")
    if value.adjusted() >= type_.precision - type_.scale:
        raise Undecodable(f"{_short(str(value))} has too many digits for {type_}")
    return value


def fit_unscaled(data: bytes, scale: int, type_: SqlType) -> Decimal:
    """The decimal of an unscaled value in two's complement, big-endian; see `fit_decimal`."""
    if len(data) > _DECIMAL_BYTES:
        raise Undecodable(f"a decimal of {len(data)} bytes has too many digits for {type_}")
    unscaled = int.from_bytes(data, signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return fit_decimal(Decimal((int(unscaled < 0), digits, -scale)), type_)


def parser(type_: SqlType) -> Parser:
    """The function that parses text to a value of a type that is not nested.

    Raises:
        KeyError: the type is nested (ARRAY, MAP, STRUCT).
    """
    if type_.base is Base.DECIMAL:
        return lambda text: fit_decimal(parse_decimal(text), type_)
    return _PARSERS[type_.base]


_PARSERS: dict[Base, Parser] = {
    # Java's Boolean.parseBoolean: any text but "true" is false.
    Base.BOOLEAN: lambda text: text.lower() == "true",
    Base.INTEGER: lambda text: fit_integer(parse_integer(text), Base.INTEGER),
    Base.BIGINT: lambda text: fit_integer(parse_integer(text), Base.BIGINT),
    Base.DATE: lambda text: fit_integer(parse_integer(text, _DAYS), Base.DATE),
    Base.TIME: lambda text: fit_time(parse_integer(text, _MILLISECONDS)),
    Base.TIMESTAMP: lambda text: fit_timestamp(parse_integer(text, _TIMESTAMP)),
    Base.DOUBLE: parse_double,
    Base.STRING: lambda text: text,
    Base.BYTES: parse_base64,
}


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "…")
