"""Converts values in a server's JSON to Python's types, by the columns' SQL types.

DATE, TIME and TIMESTAMP become `datetime`'s (times in UTC), BYTES bytes, DECIMAL Decimal.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import orjson

__all__ = ["decoder", "loads"]

Decode = Callable[[Any], Any]

_SCALARS: dict[str, Decode] = {
    "DOUBLE": float,  # also parses "NaN" and "Infinity"
    "BYTES": base64.b64decode,
    "DATE": dt.date.fromisoformat,
    "TIME": dt.time.fromisoformat,
    "TIMESTAMP": lambda text: dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC),
    "DECIMAL": lambda number: number if isinstance(number, Decimal) else Decimal(str(number)),
}


def loads(data: bytes | str, types: Sequence[str]) -> Any:
    """Parse JSON; numbers keep every digit if a column is a DECIMAL."""
    if any("DECIMAL" in kind for kind in types):
        return json.loads(data, parse_float=Decimal)
    return orjson.loads(data)


def decoder(types: Sequence[str]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The function that converts a row of JSON to a row of Python values."""
    decodes = [_decode(kind) for kind in types]
    if not any(decodes):
        return tuple
    return lambda row: tuple(
        value if decode is None or value is None else decode(value)
        for value, decode in zip(row, decodes, strict=True)
    )


@lru_cache(maxsize=256)
def _decode(kind: str) -> Decode | None:
    """The conversion for an SQL type, such as `MAP<STRING, ARRAY<DATE>>`; None if it needs none."""
    base, _, rest = kind.partition("<")
    inner = rest[:-1]
    if base == "ARRAY":
        return _each(_decode(inner))
    if base == "MAP":
        return _map(_decode(_parts(inner)[1].strip()))
    if base == "STRUCT":
        fields = (part.strip().partition(" ") for part in _parts(inner) if part.strip())
        return _struct({name: _decode(of.strip()) for name, _, of in fields})
    return _SCALARS.get(base.partition("(")[0])


def _parts(text: str) -> list[str]:
    """The parts between commas at the top level."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _each(decode: Decode | None) -> Decode | None:
    if decode is None:
        return None
    return lambda values: [None if v is None else decode(v) for v in values]


def _map(decode: Decode | None) -> Decode | None:
    if decode is None:
        return None
    return lambda value: {k: None if v is None else decode(v) for k, v in value.items()}


def _struct(decodes: dict[str, Decode | None]) -> Decode | None:
    if not any(decodes.values()):
        return None

    def decode(value: dict[str, Any]) -> dict[str, Any]:
        found = dict(value)
        for name, of in decodes.items():
            if of is not None and found.get(name) is not None:
                found[name] = of(found[name])
        return found

    return decode
