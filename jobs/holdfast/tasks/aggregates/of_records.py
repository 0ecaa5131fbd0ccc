"""Partials of single records that several aggregates share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from holdfast.tasks.aggregates.base import Partial
from holdfast.tasks.pack.folds import Folding

__all__ = ["as_doubles", "cast_to", "counted", "listed", "records"]


def counted() -> Partial:
    """Whether the first argument is not null; 1 without arguments."""
    return Partial(pa.int64(), Folding.ADD, _count)


def _count(arguments: Sequence[pa.Array], rows: int) -> pa.Array:
    if not arguments:
        return pa.array(np.ones(rows, np.int64))
    return arguments[0].is_valid().cast(pa.int64())


def cast_to(kind: pa.DataType) -> Callable[[Sequence[pa.Array], int], pa.Array]:
    """Makes a partial of the first argument itself, in another type of the same numbers."""
    return lambda arguments, _: (
        as_doubles(arguments[0]) if pa.types.is_float64(kind) else arguments[0].cast(kind)
    )


def as_doubles(numbers: pa.Array) -> pa.Array:
    """The doubles that are nearest to the numbers, as in Java."""
    if pa.types.is_decimal(numbers.type):
        # Arrow multiplies by a power of ten and so makes 0.30000000000000004 of 0.3.
        return numbers.cast(pa.string()).cast(pa.float64())
    return numbers.cast(pa.float64(), safe=False)  # a BIGINT may have more digits


def records(arguments: Sequence[pa.Array], fields: Sequence[pa.Field], rows: int) -> pa.Array:
    """The arguments of each record as a struct."""
    if not fields:
        return pa.array([{}] * rows, pa.struct([]))
    return pa.StructArray.from_arrays(list(arguments), fields=list(fields))


def listed(values: pa.Array, counts: pa.Array | None = None) -> pa.Array:
    """Each value in a list of its own; an empty list where it does not count."""
    ends = np.arange(len(values) + 1, dtype=np.int32)
    if counts is not None and not counts.false_count:
        counts = None
    if counts is not None:
        np.cumsum(counts.to_numpy(zero_copy_only=False), out=ends[1:])
        values = values.filter(counts)
    return pa.ListArray.from_arrays(pa.array(ends), values, type=pa.list_(values.type))
