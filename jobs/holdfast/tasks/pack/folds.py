"""Folds: the partials of several records, or of several batches of them, as one per group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.doubles import is_double, of_ranks, ranks, ranks_of

__all__ = ["Fold", "Folding", "Groups", "first_rows", "fold", "grouped"]


class Folding(StrEnum):
    """How to merge partials.

    The partial of LIST is a list, and lists are put one after the other in order of arrival.
    So are those of FIRST and LAST, of which only the first or last value counts.
    That of DISTINCT is a list without nulls, of which each value is kept once; values that are
    arrays, maps or structs may stay more than once.
    That of MOMENTS is a struct `n`, `total`, `mean` and `squares`: how many values, their sum,
    their mean, and the sum of their squared distances from it.  It is never null.
    """

    ADD = "ADD"
    MIN = "MIN"
    MAX = "MAX"
    LIST = "LIST"
    FIRST = "FIRST"
    LAST = "LAST"
    DISTINCT = "DISTINCT"
    MOMENTS = "MOMENTS"


@dataclass(frozen=True)
class Groups:
    """The group of each row, out of `count`; groups are in the order of their first rows."""

    codes: npt.NDArray[np.int64]
    count: int

    @property
    def single(self) -> bool:
        """Whether every row is a group of its own."""
        return self.count == len(self.codes)


Fold: TypeAlias = "Callable[[pa.Array, Groups], pa.Array]"
"""A fold of an aggregate's own: one partial per group, of the same type, without nulls."""


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


def fold(folding: Folding | Fold, partials: pa.Array, groups: Groups) -> pa.Array:
    """One partial per group, of the same type; `partials` are in order of arrival.

    It is null if all of the group's partials are, but a list is empty then.  Whole numbers wrap;
    MIN and MAX of doubles follow `Double.compare`, those of texts and bytes go byte by byte.
    """
    if groups.single:
        return partials
    own = _OWN.get(folding) if isinstance(folding, Folding) else folding
    if own is not None:
        return own(partials, groups)
    assert isinstance(folding, Folding)
    if pa.types.is_integer(partials.type) or is_double(partials.type):
        return _numbers(folding, partials, groups)
    return _others(folding, partials, groups)


def _numbers(folding: Folding, partials: pa.Array, groups: Groups) -> pa.Array:
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


_ARROW_NAMES = {Folding.ADD: "sum", Folding.MIN: "min", Folding.MAX: "max"}


def _others(folding: Folding, partials: pa.Array, groups: Groups) -> pa.Array:
    """Decimals, texts, bytes, dates and times, by Arrow."""
    name = _ARROW_NAMES[folding]
    table = pa.table({"group": groups.codes, "value": partials})
    found = table.group_by("group", use_threads=False).aggregate([("value", name)])
    at = pc.index_in(pa.array(np.arange(groups.count)), found["group"].combine_chunks())
    # Arrow's sum of decimals has a digit more.
    return found[f"value_{name}"].combine_chunks().take(at).cast(partials.type)


def _lists(partials: pa.Array, groups: Groups) -> pa.Array:
    codes = groups.codes
    if (codes[1:] < codes[:-1]).any():
        order = np.argsort(codes, kind="stable")
        partials, codes = partials.take(pa.array(order)), codes[order]
    ends = np.zeros(len(codes) + 1, np.int64)
    np.cumsum(pc.fill_null(partials.value_lengths(), 0).to_numpy(), out=ends[1:])
    starts = np.searchsorted(codes, np.arange(groups.count + 1))
    offsets = pa.array(ends[starts], pa.int32())
    return pa.ListArray.from_arrays(offsets, partials.flatten(), type=partials.type)


def _distinct(partials: pa.Array, groups: Groups) -> pa.Array:
    """Lists with the first of equal values; doubles are equal by `Double.equals`."""
    lists = _lists(partials, groups)
    values = lists.flatten()
    if pa.types.is_nested(values.type):
        return lists
    owners = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
    compared = ranks_of(values) if is_double(values.type) else values
    kept = first_rows(grouped(pa.array(owners), compared))
    ends = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(np.bincount(owners[kept], minlength=len(lists)), out=ends[1:])
    return pa.ListArray.from_arrays(pa.array(ends), values.take(pa.array(kept)), type=lists.type)


def _moments(partials: pa.Array, groups: Groups) -> pa.Array:
    """One after the other, a mean would be rounded as often; two passes round it once.

    Means are added up as distances from the group's first one: those of equal values are 0.
    """
    codes, count = groups.codes, groups.count
    n, total, mean, squares = (c.to_numpy(zero_copy_only=False) for c in partials.flatten())
    counted, center = np.flatnonzero(n)[::-1], np.zeros(count)
    center[codes[counted]] = mean[counted]
    with np.errstate(all="ignore"):
        counts = _folded(Folding.ADD, n, codes, count)
        away = np.where(n > 0, n * (mean - center[codes]), 0.0)
        center += np.bincount(codes, weights=away, minlength=count) / np.maximum(counts, 1)
        apart = np.where(n > 0, squares + n * (mean - center[codes]) ** 2, 0.0)
        columns = [
            counts,
            _folded(Folding.ADD, total, codes, count),
            center,
            np.bincount(codes, weights=apart, minlength=count),
        ]
    return pa.StructArray.from_arrays(list(map(pa.array, columns)), fields=list(partials.type))


_OWN: dict[Folding, Fold] = {
    Folding.LIST: _lists,
    Folding.FIRST: _lists,
    Folding.LAST: _lists,
    Folding.DISTINCT: _distinct,
    Folding.MOMENTS: _moments,
}
