"""Stored keys, and ranges of them, from Python values."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from holdfast.errors import Refused
from holdfast.tasks.pack.key_columns import state_keys
from holdfast.types.columns.schema import Base, Column

__all__ = ["column_of", "key_columns_of", "ordered_ranges", "state_key"]

_NUMBERS = {Base.INTEGER: (struct.Struct(">i"), 31), Base.BIGINT: (struct.Struct(">q"), 63)}
_AFTER = b"\xff" * 9  # sorts after any window
Range = tuple[bytes, bytes | None]


def column_of(column: Column, value: Any) -> pa.Array:
    """One value as an array of its column's type.

    Raises:
        Refused: the value is null, or not of that type.
    """
    try:
        array = pa.array([value], column.type.arrow())
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Refused(
            f"{value!r} is not of the type {column.type} of the key column {column.name}: {error}.",
            action="compare the key with a value of its own type.",
        ) from error
    if array.null_count:
        raise Refused(
            f"The key column {column.name} is compared with NULL.",
            action="remove the condition: no row has such a key.",
        )
    return array


def key_columns_of(columns: Sequence[Column], values: Sequence[Any]) -> list[pa.Array]:
    """One value per key column, as arrays.

    Raises:
        Refused: see `column_of`; or not as many values as columns.
    """
    if len(columns) != len(values):
        raise Refused(
            f"The key has {len(columns)} columns, {len(values)} values were given.",
            action=f"give {', '.join(c.name for c in columns)}.",
        )
    return [column_of(c, v) for c, v in zip(columns, values, strict=True)]


def state_key(columns: Sequence[Column], values: Sequence[Any]) -> bytes:
    """The state key of these values, as `tasks.pack.key_columns` makes it of rows.

    Raises:
        Refused: see `key_columns_of`.
    """
    first = columns[0].type.base
    if len(columns) == len(values) == 1 and first is Base.STRING and type(values[0]) is str:
        return values[0].encode()  # by far the most frequent case
    arrays = key_columns_of(columns, values)
    key: bytes = state_keys(arrays, [c.type for c in columns])[0].as_py()
    return key


def ordered_ranges(
    columns: Sequence[Column], low: Any, high: Any, *, windowed: bool
) -> list[Range] | None:
    """See `ServedTable.key_ranges`; for keys that are the plain bytes of one value."""
    if len(columns) != 1:
        return None
    column = columns[0]
    tail = _AFTER if windowed else b""
    if column.type.base is Base.STRING:
        first = b"" if low is None else state_key(columns, [low])
        return [(first, None if high is None else state_key(columns, [high]) + tail + b"\0")]
    if column.type.base in _NUMBERS:
        return _number_ranges(column, low, high, tail)
    return None


def _number_ranges(column: Column, low: Any, high: Any, tail: bytes) -> list[Range]:
    """Ranges of numbers: negative ones are stored after the others, both in ascending order."""
    packer, bits = _NUMBERS[column.type.base]
    first = -(1 << bits) if low is None else column_of(column, low)[0].as_py()
    last = (1 << bits) - 1 if high is None else column_of(column, high)[0].as_py()
    halves = ((max(first, 0), last), (first, min(last, -1)))
    return [(packer.pack(a), packer.pack(b) + tail + b"\0") for a, b in halves if a <= b]
