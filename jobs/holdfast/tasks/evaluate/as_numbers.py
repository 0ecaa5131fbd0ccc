"""Dates and times as numbers, at any depth: Arrow's range is wider than Python's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

__all__ = ["as_numbers", "from_numbers"]


def as_numbers(column: pa.Array) -> pa.Array:
    """The column with days since the epoch for its dates, microseconds for its timestamps."""
    plain = _numbers(column.type)
    return column if plain == column.type else column.cast(plain)


def from_numbers(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The inverse of `as_numbers`, from Python values: an array of `kind`."""
    plain = _numbers(kind)
    array = pa.array(values, plain)
    return array if plain == kind else array.cast(kind)


def _numbers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(_numbers(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_numbers(kind.key_type), _numbers(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _numbers(f.type)) for f in kind])
    return kind
