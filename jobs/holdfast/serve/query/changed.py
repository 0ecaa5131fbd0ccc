"""Turns changes of a table into rows of a push query: new rows, and rows that are gone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from holdfast.serve.contract import PRESENT, WINDOWEND, WINDOWSTART, Change, ServedTable
from holdfast.serve.queries import GONE
from holdfast.serve.query.access import Range
from holdfast.serve.query.evaluate import Evaluation

__all__ = ["Told", "changed_rows", "narrowed", "needs_old"]

_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Told:
    """A push query's rows for a change; `there`: which rows are in the result (not gone)."""

    rows: pa.Table
    there: _Flags

    @staticmethod
    def nothing(schema: pa.Schema) -> Told:
        """No rows."""
        return Told(schema.empty_table(), np.zeros(0, np.bool_))

    @property
    def count(self) -> int:
        """The number of rows that are in the result."""
        return int(self.there.sum())

    def first(self, count: int) -> Told:
        """The shortest prefix with `count` rows that are in the result."""
        end = int(np.searchsorted(np.cumsum(self.there), count)) + 1
        return Told(self.rows.slice(0, end), self.there[:end])

    def batch(self) -> pa.RecordBatch | None:
        """The rows as one batch, or None without rows; see `gone_rows`."""
        if not len(self.rows):
            return None
        rows = self.rows.combine_chunks()
        if not self.there.all():
            gone = orjson.dumps(np.flatnonzero(~self.there).tolist())
            rows = rows.replace_schema_metadata({GONE: gone})
        return rows.to_batches()[0]


def needs_old(table: ServedTable, evaluation: Evaluation) -> bool:
    """Whether a row that is still stored may have left the result."""
    keys = {c.name for c in table.key_columns} | {WINDOWSTART, WINDOWEND}
    return table.hides_rows or not evaluation.looks_only_at(keys, table.schema())


def narrowed(change: Change, within: Sequence[Range]) -> Change:
    """The part of a change in stored ranges; the ranges and the change's keys are sorted."""
    cuts = [slice(bisect_left(change.keys, start), _end(change.keys, end)) for start, end in within]
    if sum(cut.stop - cut.start for cut in cuts) == len(change.keys):
        return change
    old = change.old
    return replace(
        change,
        keys=[key for cut in cuts for key in change.keys[cut]],
        rows=[row for cut in cuts for row in change.rows[cut]],
        old=None if old is None else [row for cut in cuts for row in old[cut]],
    )


def _end(keys: Sequence[bytes], end: bytes | None) -> int:
    return len(keys) if end is None else bisect_left(keys, end)


def changed_rows(table: ServedTable, evaluation: Evaluation, change: Change) -> Told:
    """A push query's rows for a change.

    A row that is not in the result, because it was removed or does not pass WHERE, has only its key
    columns.  It is left out if it is known that it was not in the result before, either.
    """
    rows = table.decode(change.keys, change.rows)
    values, there = _passing(evaluation, rows)
    if change.snapshot:
        kept = there
    elif there.all() or change.old is None:
        kept = np.ones(len(there), np.bool_)
    else:
        kept = there.copy()
        kept[~there] = _were_there(table, evaluation, change, np.flatnonzero(~there).tolist())
    columns = _without_values(table, evaluation, values, there)
    made = pa.Table.from_arrays(columns, schema=evaluation.schema)
    return Told(made, there) if kept.all() else Told(made.filter(pa.array(kept)), there[kept])


def _were_there(
    table: ServedTable, evaluation: Evaluation, change: Change, at: list[int]
) -> _Flags:
    keys, old = [change.keys[i] for i in at], change.old or []
    return _passing(evaluation, table.decode(keys, [old[i] for i in at]))[1]


def _passing(evaluation: Evaluation, rows: pa.Table) -> tuple[pa.Table, _Flags]:
    values, passes = evaluation.every(rows)
    there: _Flags = np.array(rows.column(PRESENT).to_pylist(), np.bool_)
    return values, there & np.array(passes, np.bool_)


def _without_values(
    table: ServedTable, evaluation: Evaluation, values: pa.Table, there: _Flags
) -> list[pa.ChunkedArray]:
    """The columns; rows that are gone keep only key columns and window bounds."""
    if there.all():
        return list(values.columns)
    keys = {c.name for c in table.key_columns} | {WINDOWSTART, WINDOWEND}
    dead = [None if alive else i for i, alive in enumerate(there.tolist())]
    alive = pa.array([i if d is None else None for i, d in enumerate(dead)], pa.int64())
    refs = evaluation.output_refs
    return [
        column if ref in keys else column.take(alive)
        for ref, column in zip(refs, values.columns, strict=True)
    ]
