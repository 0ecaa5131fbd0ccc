"""Arrow's values as Python's, which have dates from the year 1 to 9999 only."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["values_of"]


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values; one that has a date or time outside of Python's years is None."""
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
