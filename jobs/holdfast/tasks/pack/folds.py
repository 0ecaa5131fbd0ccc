"""Folds: the partials of COUNT, SUM, MIN and MAX in columns, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.doubles import of_ranks, ranks
from holdfast.types.expressions import Expression
from holdfast.types.schema import Base

__all__ = ["FOLDED", "Fold", "Folding", "Groups", "first_rows", "fold", "grouped", "of_record"]

FOLDED = frozenset({Base.INTEGER, Base.BIGINT, Base.DOUBLE})  # types that `fold` takes


class Folding(StrEnum):
    """How to merge partials."""

    ADD = "ADD"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True)
class Fold:
    """How to make a partial column from records: `of` is the argument, None for COUNT(*).

    `counts`: the partial of a record is whether its argument is not null, instead of its value.
    """

    folding: Folding
    of: Expression | None
    counts: bool = False


@dataclass(frozen=True)
class Groups:
    """The group of each row, out of `count`; groups are in the order of their first rows."""

    codes: npt.NDArray[np.int64]
    count: int

    @property
    def single(self) -> bool:
        """Whether every row is a group of its own."""
        return self.count == len(self.codes)


def grouped(*columns: pa.Array) -> Groups:
    """Groups rows with the same values in all columns; null is a value."""
    codes = count = None
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        found = encoded.indices.to_numpy().astype(np.int64)
        if codes is None:
            codes, count = found, len(encoded.dictionary)
        else:
            both = pa.array(codes * len(encoded.dictionary) + found).dictionary_encode()
            codes, count = both.indices.to_numpy().astype(np.int64), len(both.dictionary)
    if codes is None or count is None:
        raise ValueError("groups are made of one column at least")
    return Groups(codes, count)


def first_rows(groups: Groups) -> npt.NDArray[np.int64]:
    """The number of the first row of each group."""
    rows = np.empty(groups.count, np.int64)
    rows[groups.codes[::-1]] = np.arange(len(groups.codes), dtype=np.int64)[::-1]
    return rows


def of_record(fold_: Fold, argument: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    """The partial of each single record; `argument` is None for COUNT(*)."""
    if argument is None:
        return pa.array(np.ones(rows, np.int64))
    if fold_.counts:
        return pc.is_valid(argument).cast(pa.int64())
    return argument.cast(kind)


def fold(folding: Folding, partials: pa.Array, groups: Groups) -> pa.Array:
    """One partial per group; null if all of the group's partials are.

    Whole numbers wrap; MIN and MAX of doubles follow `Double.compare`.
    """
    if groups.single:
        return partials
    codes, count = groups.codes, groups.count
    if not partials.null_count:
        return pa.array(_folded(folding, partials.to_numpy(zero_copy_only=False), codes, count))
    there = pc.is_valid(partials).to_numpy(zero_copy_only=False)
    codes, values = codes[there], partials.drop_null().to_numpy(zero_copy_only=False)
    seen = np.zeros(count, np.bool_)
    seen[codes] = True
    return pa.array(_folded(folding, values, codes, count), partials.type, mask=~seen)


def _folded(
    folding: Folding, values: npt.NDArray[Any], codes: npt.NDArray[np.int64], count: int
) -> npt.NDArray[Any]:
    if folding is Folding.ADD:
        if values.dtype.kind == "f":
            return np.bincount(codes, weights=values, minlength=count)
        found = np.zeros(count, values.dtype)
        np.add.at(found, codes, values)
        return found
    if values.dtype.kind == "f":
        return of_ranks(_extremes(folding, ranks(values), codes, count))
    return _extremes(folding, values, codes, count)


def _extremes(
    folding: Folding, values: npt.NDArray[Any], codes: npt.NDArray[np.int64], count: int
) -> npt.NDArray[Any]:
    limits, least = np.iinfo(values.dtype), folding is Folding.MIN
    found = np.full(count, limits.max if least else limits.min, values.dtype)
    (np.minimum if least else np.maximum).at(found, codes, values)
    return found
