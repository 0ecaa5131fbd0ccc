"""Doubles in the order of Java's `Double.compare`: -0.0 < 0.0, NaN above all and equal to itself.

Float operators have no such total order, and NumPy, Arrow, Spark, DuckDB and Python each differ; an
aggregate that runs in several of these engines needs one order (ADR 39).
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["canonical", "has_double", "is_double", "of_ranks", "rank", "ranks", "ranks_of"]

_BITS, _SIGNED = struct.Struct("<d"), struct.Struct("<q")
_MAGNITUDE = 2**63 - 1  # all bits but the sign
_NAN = 0x7FF8 << 48  # the one NaN of `Double.doubleToLongBits`
_Ranks: TypeAlias = "npt.NDArray[np.int64]"


def rank(value: float) -> int:
    """A whole number that compares to other ranks as the double does in Java."""
    if value != value:  # noqa: PLR0124 - nothing but a NaN differs from itself
        return _NAN
    bits: int = _SIGNED.unpack(_BITS.pack(value))[0]
    return bits ^ _MAGNITUDE if bits < 0 else bits


def ranks(values: npt.NDArray[np.float64]) -> _Ranks:
    """`rank` of each value."""
    bits = canonical(values).view(np.int64)
    return bits ^ (bits >> 63 & _MAGNITUDE)


def of_ranks(found: _Ranks) -> npt.NDArray[np.float64]:
    """The doubles of these ranks."""
    return (found ^ (found >> 63 & _MAGNITUDE)).view(np.float64)


def ranks_of(column: pa.Array) -> pa.Array:
    """`rank` of each value of a DOUBLE column; null for null."""
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(ranks(values), mask=is_null if is_null.any() else None)


def canonical(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values with every NaN replaced by the one that Java writes; contiguous."""
    values = np.ascontiguousarray(values)
    is_nan = np.isnan(values)
    return np.where(is_nan, np.int64(_NAN).view(np.float64), values) if is_nan.any() else values


def is_double(kind: pa.DataType) -> bool:
    """Whether `kind` is Arrow's type for DOUBLE."""
    return bool(pa.types.is_float64(kind))


def has_double(kind: pa.DataType) -> bool:
    """Whether the type contains a DOUBLE at any depth."""
    nested = (kind.field(i).type for i in range(kind.num_fields))
    return is_double(kind) or any(map(has_double, nested))
