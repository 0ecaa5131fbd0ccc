"""Expressions before the shuffle, over the decoded records of a topic partition.

A plain column costs nothing.  DuckDB evaluates all other expressions in one query; an expression
that fails is NULL, and a value has exactly its expression's type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.outputs import evaluate_all
from holdfast.types.columns.schema import SqlType
from holdfast.types.statements.expressions import Expression, NamedExpression, in_duckdb, in_type
from holdfast.types.statements.topology import TOMBSTONE, Input, Source

__all__ = [
    "Values",
    "exploded",
    "input_rows",
    "passing",
    "table_rows",
    "values_of",
    "with_primary_key",
]

Values: TypeAlias = "Mapping[Expression, pa.Array]"

_ROW = "row number"  # the one column of a frame whose expressions read none


def values_of(rows: pa.RecordBatch, wanted: Iterable[Expression]) -> Values:
    """The values of expressions for each row, in the Arrow types of their SQL types."""
    every = dict.fromkeys(wanted)
    computed = {f"v{i}": e for i, e in enumerate(every) if e.ref is None}
    found = evaluate_all(_frame(rows, computed.values()), _tried(computed)) if computed else {}
    made = {e: _made(found[name], e.type) for name, e in computed.items()}
    return {e: made[e] if e.ref is None else _typed(rows[e.ref], e.type) for e in every}


def _frame(rows: pa.RecordBatch, computed: Iterable[Expression]) -> dict[str, pa.Array]:
    """The columns that expressions read, by their names in DuckDB; one column at least."""
    from holdfast.tasks.functions.in_duckdb import to_duckdb

    names = {name for each in computed for name in each.columns}
    frame = {in_duckdb(n): to_duckdb(rows[n]) for n in sorted(names)}
    return frame or {_ROW: pa.array(np.arange(rows.num_rows))}


def _tried(computed: Mapping[str, Expression]) -> dict[str, Expression]:
    return {
        name: each.mapped(lambda sql, of=each.type: in_type(sql, of))  # type: ignore[misc]
        for name, each in computed.items()
    }


def _made(values: pa.Array, sql_type: SqlType) -> pa.Array:
    from holdfast.tasks.functions.in_duckdb import from_duckdb

    return from_duckdb(values, sql_type.arrow())


def _typed(values: pa.Array, sql_type: SqlType) -> pa.Array:
    wanted = sql_type.arrow()
    return values if values.type == wanted else values.cast(wanted)


def _passes(rows: pa.RecordBatch, condition: Expression) -> pa.Array:
    """Whether each row passes a condition; NULL does not."""
    return pc.fill_null(values_of(rows, [condition])[condition], False)


def passing(rows: pa.RecordBatch, condition: Expression | None) -> pa.RecordBatch:
    """A stream's records that count and pass WHERE; a record without a value never does."""
    if rows[TOMBSTONE].true_count:
        rows = rows.filter(pc.invert(rows[TOMBSTONE]))
    return rows if condition is None else rows.filter(_passes(rows, condition))


def table_rows(rows: pa.RecordBatch, condition: Expression | None) -> pa.RecordBatch:
    """A table's rows: WHERE makes a tombstone of a row that does not pass it."""
    if condition is None:
        return rows
    dead = pc.or_(rows[TOMBSTONE], pc.invert(_passes(rows, condition)))
    at = rows.schema.get_field_index(TOMBSTONE)
    return rows.set_column(at, rows.schema.field(at), dead)


def input_rows(rows: pa.RecordBatch, of: Input) -> pa.RecordBatch:
    """The rows of an input of a join or of another step that sees rows."""
    if of.filter is None:
        return rows
    return (table_rows if of.source.kind == "TABLE" else passing)(rows, of.filter)


def with_primary_key(rows: pa.RecordBatch, source: Source) -> pa.RecordBatch:
    """The rows of a table that have a primary key; other records are none of its rows."""
    present = [rows[c.name].is_valid() for c in source.key_columns]
    if not present:
        return rows
    return rows.filter(reduce(pc.or_, present))


def exploded(rows: pa.RecordBatch, arrays: Sequence[NamedExpression]) -> pa.RecordBatch:
    """One row per element of the longest array, one column per array; shorter arrays give nulls.

    A record whose arrays are all empty or NULL gives no row.  Rows keep their order.
    """
    if not arrays:
        return rows
    values = values_of(rows, [a.expression for a in arrays])
    lists = [values[a.expression] for a in arrays]
    lengths = [_lengths(each) for each in lists]
    counts = np.maximum.reduce(lengths)
    at = np.repeat(np.arange(rows.num_rows), counts)
    nth = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = {name: rows[name].take(pa.array(at)) for name in rows.schema.names}
    for array, each, length in zip(arrays, lists, lengths, strict=True):
        columns[array.name] = _elements(each, length, at, nth)
    return pa.RecordBatch.from_pydict(columns)


def _lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = (
        pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return found


def _elements(
    lists: pa.Array,
    lengths: npt.NDArray[np.int64],
    at: npt.NDArray[np.int64],
    nth: npt.NDArray[np.int64],
) -> pa.Array:
    """The `nth` element of the list in row `at`; null beyond its end."""
    starts = np.cumsum(lengths) - lengths
    there = nth < lengths[at]
    places = pa.array(starts[at] + nth, mask=~there)
    return lists.flatten().take(places)
