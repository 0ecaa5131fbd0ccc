"""Changes of a table → rows of a push query: new rows, and rows that are gone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.serve.contract import PRESENT, WINDOWEND, WINDOWSTART, Change, ServedTable
from holdfast.serve.query.evaluate import Evaluation

__all__ = ["changed_rows", "first_present"]

_Flags = npt.NDArray[np.bool_]


def changed_rows(table: ServedTable, evaluation: Evaluation, change: Change) -> pa.Table:
    """The outputs of a push query for a change, and PRESENT as last column.

    A row that is not in the result any more, because it was removed or does not pass WHERE now,
    has its key columns and nothing else.  It is left out where it is known that it was not there
    before either.
    """
    rows = table.decode(change.keys, change.rows)
    values, there = _passing(evaluation, rows)
    if change.snapshot:
        kept = there
    elif there.all() or change.old is None:
        kept = np.ones(len(there), np.bool_)
    else:
        kept = there | _passing(evaluation, table.decode(change.keys, change.old))[1]
    columns = _without_values(table, evaluation, values, there)
    names = [*evaluation.schema.names, PRESENT]
    made = pa.Table.from_arrays([*columns, pa.array(there)], names=names)
    return made if kept.all() else made.filter(pa.array(kept))


def _passing(evaluation: Evaluation, rows: pa.Table) -> tuple[pa.Table, _Flags]:
    values, passes = evaluation.every(rows)
    there: _Flags = np.array(rows.column(PRESENT).to_pylist(), np.bool_)
    return values, there & np.array(passes, np.bool_)


def _without_values(
    table: ServedTable, evaluation: Evaluation, values: pa.Table, there: _Flags
) -> list[pa.ChunkedArray]:
    """The columns; in rows that are gone only those that are key columns or bounds."""
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


def first_present(rows: pa.Table, count: int) -> pa.Table:
    """The rows up to the one with which `count` of them are there."""
    there = np.cumsum(np.array(rows.column(PRESENT).to_pylist(), np.int64))
    return rows.slice(0, int(np.searchsorted(there, count)) + 1)
