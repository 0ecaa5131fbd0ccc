"""Columns whose values become Python objects a piece at a time.

A batch has hundreds of thousands of keys and rows.  Created all at once, they need fresh pages of
memory and leave the CPU cache before they are used.  A piece is used while it is in the cache, and
the next one reuses its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["PIECE", "Lazy", "as_array", "taken"]

T = TypeVar("T")
PIECE = 2_000  # values: about 200 kB


class Lazy(Sequence[T]):
    """The values of an Arrow array, converted to new Python objects on each access."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> list[T]: ...

    def __getitem__(self, at: int | slice) -> T | list[T]:
        if not isinstance(at, slice):
            value: T = self.array[at].as_py()
            return value
        start, end, step = at.indices(len(self))
        if step != 1:
            return list(self)[at]
        return self._values(start, max(end - start, 0))

    def __iter__(self) -> Iterator[T]:
        starts = range(0, len(self), PIECE)
        return chain.from_iterable(self._values(start, PIECE) for start in starts)

    def __contains__(self, value: object) -> bool:
        return self.array.null_count > 0 if value is None else value in list(self)

    def _values(self, start: int, count: int) -> list[T]:
        part = self.array.slice(start, count)
        plain = pa.types.is_integer(part.type) and not part.null_count
        values: list[T] = part.to_numpy().tolist() if plain else part.to_pylist()
        return values


def as_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column as an array of that type."""
    return values.array if isinstance(values, Lazy) else pa.array(values, kind)


def taken(values: Sequence[Any], rows: npt.NDArray[np.int64]) -> Sequence[Any]:
    """The given rows of a column."""
    if isinstance(values, Lazy):
        return Lazy(values.array.take(pa.array(rows)))
    return [values[row] for row in rows.tolist()]
