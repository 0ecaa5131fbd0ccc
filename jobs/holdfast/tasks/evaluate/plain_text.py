"""Values in the formats DELIMITED and KAFKA."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from holdfast.tasks.evaluate.java_doubles import java_double
from holdfast.types.columns.schema import Base

__all__ = ["delimited_rows", "kafka_bytes"]

_PACKED = {Base.INTEGER: ">i", Base.BIGINT: ">q", Base.DOUBLE: ">d"}
_NUMBER_SIGN, _SPACE = "#", " "


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
