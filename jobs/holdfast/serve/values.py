"""Converts Arrow's values to Python's, whose dates range from the year 1 to 9999."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["values_of"]


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The column's values; None for a date or time outside of Python's range."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        return [_value(v) for v in column]
    return values


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return None
