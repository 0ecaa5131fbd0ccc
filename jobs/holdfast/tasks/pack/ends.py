"""Payloads of the first and last values: only the records that have one go through the shuffle."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.tasks.pack.folds import Folding, Groups, first_rows, grouped
from holdfast.tasks.processors.aggregates.state import WINDOW, folded, partial_columns
from holdfast.tasks.processors.base import KEY
from holdfast.types.statements.topology import PARTITION, AggregateStep

__all__ = ["without_middles"]

_ENDS = (Folding.FIRST, Folding.LAST)


def without_middles(every: pa.RecordBatch, step: AggregateStep) -> pa.RecordBatch:
    """The records whose value is the first or the last one of their key, with all others folded in.

    A record keeps its place in the order of arrival.  A key without a value keeps one record.

    Args:
        every: one row per record (and window); those of a topic partition in the order of offsets.
    """
    foldings = {c.name: c.folding for c in partial_columns(step)}
    if Folding.LIST in foldings.values():
        return every
    groups = grouped(*(every[n] for n in (KEY, WINDOW, PARTITION) if n in every.schema.names))
    if groups.single:
        return every
    kept = np.zeros(len(every), np.bool_)
    for name in [name for name, folding in foldings.items() if folding in _ENDS]:
        lists = every[name]
        chosen = _ends_of(lists, groups, last=foldings[name] is Folding.LAST)
        every = every.set_column(every.schema.get_field_index(name), name, _only(lists, chosen))
        kept |= chosen
    seen = np.zeros(groups.count, np.bool_)
    seen[groups.codes[kept]] = True
    kept[first_rows(groups)[~seen]] = True
    parts, rows = _around(kept, groups)
    return pa.RecordBatch.from_arrays(folded(step, every, parts, rows), schema=every.schema)


def _ends_of(lists: pa.ListArray, groups: Groups, *, last: bool) -> npt.NDArray[np.bool_]:
    """Which rows have the first or last value of their group; a list has one value at most."""
    rows = np.flatnonzero(lists.value_lengths().to_numpy())
    rows = rows if last else rows[::-1]
    found = np.full(groups.count, -1, np.int64)
    found[groups.codes[rows]] = rows  # of several rows, the last one stays
    chosen = np.zeros(len(lists), np.bool_)
    chosen[found[found >= 0]] = True
    return chosen


def _only(lists: pa.ListArray, chosen: npt.NDArray[np.bool_]) -> pa.ListArray:
    """The lists of the chosen rows; all others are empty."""
    there = lists.value_lengths().to_numpy() > 0
    ends = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(chosen, out=ends[1:])
    values = lists.flatten().filter(pa.array(chosen[there]))
    return pa.ListArray.from_arrays(pa.array(ends), values, type=lists.type)


def _around(kept: npt.NDArray[np.bool_], groups: Groups) -> tuple[Groups, pa.Array]:
    """For each row, the next kept row of its group, or its last one; and the kept rows."""
    order = np.argsort(groups.codes, kind="stable")
    is_kept = kept[order]
    before: npt.NDArray[np.int64] = np.cumsum(is_kept) - is_kept
    last = np.cumsum(np.bincount(groups.codes[order][is_kept], minlength=groups.count)) - 1
    rows = np.flatnonzero(kept)
    codes = np.empty(len(order), np.int64)
    codes[order] = np.searchsorted(rows, order[is_kept])[
        np.minimum(before, last[groups.codes[order]])
    ]
    return Groups(codes, len(rows)), pa.array(rows)
