"""STDDEV_SAMPLE, STDDEV_SAMP and CORRELATION: moments in fixed-width state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.aggregates.base import (
    Aggregate,
    AggregateFunction,
    Literal,
    Partial,
    not_accepted,
)
from holdfast.tasks.aggregates.of_records import as_doubles
from holdfast.tasks.pack.folds import Folding
from holdfast.types.columns.schema import DOUBLE, Base, SqlType
from holdfast.types.statements.topology import AggregateCall

__all__ = ["Correlation", "StddevSamp", "StddevSample"]

Numbers: TypeAlias = "npt.NDArray[Any]"


def _numbers(array: pa.Array) -> Numbers:
    numbers: Numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    return numbers


class _MomentsCall(Aggregate):
    """State: the number of values, their sum, and the sum of squared distances from their mean.

    A single value is added by the Youngs-Cramer update, as in ksqlDB, so that the last digits are
    the same; several values at once are combined.
    """

    def __init__(self, call: AggregateCall, *, root: bool) -> None:
        whole = call.arg_types[0].base in (Base.INTEGER, Base.BIGINT)
        self._sum = pa.int64() if whole else pa.float64()
        self._root = root
        names = {"n": pa.int64(), "total": self._sum, "mean": pa.float64(), "squares": pa.float64()}
        self._moments = pa.struct(list(names.items()))

    @property
    def partials(self) -> tuple[Partial, ...]:
        return (Partial(self._moments, Folding.MOMENTS, self._of_values),)

    def _of_values(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        (values,) = arguments
        doubles = as_doubles(values)
        columns = [
            values.is_valid().cast(pa.int64()),
            doubles if pa.types.is_float64(self._sum) else values.cast(self._sum),
            doubles,
            pc.subtract(doubles, doubles),  # 0; NaN of what is not finite
        ]
        present = [pc.fill_null(column, 0) for column in columns]
        return pa.StructArray.from_arrays(present, fields=list(self._moments))

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return pa.int64(), self._sum, pa.float64()

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        m, more, _, others = _arrays(partial[0].flatten())
        return self._joined(_arrays(old), [m, more, others])

    def combine(
        self, first: Sequence[pa.Array], second: Sequence[pa.Array]
    ) -> tuple[pa.Array, ...]:
        return self._joined(_arrays(first), _arrays(second))

    def _joined(self, first: Sequence[Numbers], second: Sequence[Numbers]) -> tuple[pa.Array, ...]:
        (n, total, squares), (m, more, others) = first, second
        with np.errstate(all="ignore"):
            delta = _delta(more, n, total)
            one = delta * delta / ((n + 1) * n)
            inner = total / n - more / m
            many = n * m * inner * inner / (n + m)
            added = np.where((n == 0) | (m == 0), 0.0, np.where(m == 1, one, many))
            return self._columns(n + m, total + more, added + squares + others)

    def undo(self, state: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        n, total, squares = _arrays(state)
        m, gone, _, _ = _arrays(partial[0].flatten())
        left = n - 1
        with np.errstate(all="ignore"):
            delta = _delta(gone, n, total)
            lost = np.where(left > 0, delta * delta / (left * (left + 1)), 0.0)
            there = m > 0
            return self._columns(
                np.where(there, left, n),
                np.where(there, total - gone, total),
                np.where(there, squares - lost, squares),
            )

    def _columns(self, count: Numbers, total: Numbers, squares: Numbers) -> tuple[pa.Array, ...]:
        return pa.array(count, pa.int64()), pa.array(total, self._sum), pa.array(squares)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        count, _, squares = _arrays(state)
        with np.errstate(all="ignore"):
            variance = np.where(count < 2, 0.0, squares / (count - 1))
            return pa.array(np.sqrt(variance) if self._root else variance)


def _delta(value: Numbers, count: Numbers, total: Numbers) -> Numbers:
    """`count * value - total`, with ksqlDB's rounding where whole numbers allow it."""
    if total.dtype.kind == "f":
        away: Numbers = value * (count + 1) - (total + value)
        return away
    there = np.maximum(count, 1)
    mean, rest = total // there, total % there
    from_mean = value.astype(np.float64) - mean
    exact = (value - mean) * count - rest
    fits = np.abs(from_mean) * there < _EXACT
    delta: Numbers = np.where(fits, exact.astype(np.float64), from_mean * count - rest)
    return delta


_EXACT = float(1 << 61)  # below it no whole number overflows


def _arrays(columns: Sequence[pa.Array]) -> list[Numbers]:
    return [_numbers(c) for c in columns]


class _Stddev(AggregateFunction):
    undoable = True
    root: bool

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 1 or literals or not args[0].numeric:
            raise not_accepted(self.name, args, literals)
        return DOUBLE

    def bind(self, call: AggregateCall) -> Aggregate:
        return _MomentsCall(call, root=self.root)


class StddevSample(_Stddev):
    """The standard deviation of a sample; 0 for fewer than two values."""

    name = "STDDEV_SAMPLE"
    root = True


class StddevSamp(_Stddev):
    """The variance of a sample: ksqlDB's STDDEV_SAMP never took the root."""

    name = "STDDEV_SAMP"
    root = False


class _CorrelationCall(Aggregate):
    """State: sums of x, y, their squares and their product, and how many pairs."""

    @property
    def partials(self) -> tuple[Partial, ...]:
        pairs = Partial(pa.int64(), Folding.ADD, lambda xy, _: _both(xy).cast(pa.int64()))
        return (*map(_sum_of, _FACTORS), pairs)

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (*(pa.float64() for _ in _FACTORS), pa.int64())

    def merge(self, old: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        pairs = zip(_arrays(old), _arrays(partial), strict=True)
        with np.errstate(all="ignore"):
            return tuple(pa.array(a + b) for a, b in pairs)

    def undo(self, state: Sequence[pa.Array], partial: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        pairs = zip(_arrays(state), _arrays(partial), strict=True)
        with np.errstate(all="ignore"):
            return tuple(pa.array(a - b) for a, b in pairs)

    def finish(self, state: Sequence[pa.Array]) -> pa.Array:
        x, y, xx, yy, xy, n = _arrays(state)
        with np.errstate(all="ignore"):
            spread = np.sqrt((n * xx - x * x) * (n * yy - y * y))
            return pa.array((n * xy - x * y) / spread, from_pandas=False)


_FACTORS = ((0,), (1,), (0, 0), (1, 1), (0, 1))  # of each sum: x is argument 0, y is 1


def _sum_of(factors: Sequence[int]) -> Partial:
    return Partial(pa.float64(), Folding.ADD, lambda xy, _: _product([xy[i] for i in factors], xy))


def _product(factors: Sequence[pa.Array], xy: Sequence[pa.Array]) -> pa.Array:
    """The product of the factors; null where x or y is."""
    return pc.if_else(_both(xy), reduce(pc.multiply, map(as_doubles, factors)), None)


def _both(xy: Sequence[pa.Array]) -> pa.Array:
    return pc.and_(xy[0].is_valid(), xy[1].is_valid())


class Correlation(AggregateFunction):
    """Pearson's coefficient of the pairs without nulls; NaN if x or y does not vary."""

    name = "CORRELATION"
    undoable = True

    def result_type(self, args: Sequence[SqlType], literals: Sequence[Literal]) -> SqlType:
        if len(args) != 2 or not all(a.numeric for a in args):
            raise not_accepted(self.name, args, literals)
        return DOUBLE

    def bind(self, call: AggregateCall) -> Aggregate:
        return _CorrelationCall()
