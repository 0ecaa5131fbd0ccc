"""Values as Java writes them as text, and the formats DELIMITED and KAFKA."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from holdfast.types.schema import Base

__all__ = ["delimited_rows", "java_double", "kafka_bytes"]

_PACKED = {Base.INTEGER: ">i", Base.BIGINT: ">q", Base.DOUBLE: ">d"}
_LEAST, _LEAST_TEXT = 5e-324, "4.9E-324"  # Java writes this double with an extra digit
_PLAIN = (1e-3, 1e7)  # outside this range Java writes an exponent
_NUMBER_SIGN, _SPACE = "#", " "


def java_double(value: float) -> str:
    """Java's `Double.toString`: 1.0, 1.0E10, 1.0E-5, NaN, -Infinity."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return format(Decimal(repr(value)), "f")
    if abs(value) == _LEAST:
        return _LEAST_TEXT if value > 0 else f"-{_LEAST_TEXT}"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    shown = "".join(map(str, digits))
    power = len(shown) - 1 + int(exponent)
    fraction = shown[1:].rstrip("0") or "0"
    return f"{'-' if sign else ''}{shown[0]}.{fraction}E{power}"


def kafka_bytes(value: Any, base: Base) -> bytes | None:
    """A value as Kafka's own serializers write it; None for None."""
    if value is None or isinstance(value, bytes):
        return value
    if base in _PACKED:
        # Java writes every NaN as the same bytes.
        return struct.pack(_PACKED[base], math.nan if value != value else value)  # noqa: PLR0124
    return str(value).encode()


def delimited_rows(columns: Sequence[Sequence[Any]], delimiter: str) -> list[bytes]:
    """One line per row, from columns of `values.text_ready`."""
    return [_line(row, delimiter).encode() for row in zip(*columns, strict=True)]


def _line(row: Sequence[Any], delimiter: str) -> str:
    return delimiter.join(_field(v, delimiter, first=i == 0) for i, v in enumerate(row))


def _field(value: Any, delimiter: str, *, first: bool) -> str:
    if value is None:
        return ""
    text = _text(value)
    if not _to_quote(text, delimiter, first=first):
        return text
    return '"' + text.replace('"', '""') + '"'


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return java_double(value) if isinstance(value, float) else str(value)


def _to_quote(text: str, delimiter: str, *, first: bool) -> bool:
    """Whether Commons CSV quotes the text; it also quotes some first and last characters."""
    if not text:
        return first
    if first and not (text[0].isascii() and text[0].isalnum()):
        return True
    special = ("\n", "\r", '"', delimiter)
    return text[0] <= _NUMBER_SIGN or text[-1] <= _SPACE or any(c in text for c in special)
