"""Expressions after the merge: output columns, HAVING and WHERE, over a batch's Arrow columns.

A plain reference costs nothing; anything else is one DuckDB query over all rows at once.
DuckDB runs in process and needs no rows in Python (ADR 3).  It is imported with the first such
query, because most jobs have none and it takes 13 MB of each process.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.tasks.functions.names import calls_in
from holdfast.types.columns.schema import SqlType
from holdfast.types.statements.expressions import Expression, NamedExpression

if TYPE_CHECKING:
    import duckdb

__all__ = ["Expressions", "engine", "evaluate", "evaluate_all", "evaluate_text"]

_CONDITION = "__condition"
_THREAD = threading.local()


def engine() -> duckdb.DuckDBPyConnection:
    """This thread's DuckDB connection, kept because registering functions in it is slow."""
    found: duckdb.DuckDBPyConnection | None = getattr(_THREAD, "engine", None)
    if found is None:
        found = _THREAD.engine = _connect()
    return found


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb

    made = duckdb.connect(config={"threads": 1, "memory_limit": "512MB"})
    made.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = true")
    made.execute("SET enable_progress_bar = false")  # its lines would be in the log
    # The planner limits how deep statements are nested; an operator may be several levels here.
    made.execute("SET max_expression_depth = 10000")
    # This optimizer moves repeated expressions out of their TRY(...), where errors are not NULL.
    made.execute("SET disabled_optimizers = 'common_subexpressions'")
    return made


class Expressions:
    """A list of columns, and perhaps a condition, evaluated over named arrays.

    Args:
        outputs: the columns that `columns` returns, in order.
        condition: a boolean, for `passes`.
    """

    def __init__(
        self, outputs: Sequence[NamedExpression], condition: Expression | None = None
    ) -> None:
        self._outputs = tuple(outputs)
        self._condition = condition

    def columns(self, frame: Mapping[str, pa.Array]) -> list[pa.Array]:
        """One array per output column, of the column's Arrow type.

        Args:
            frame: all columns the expressions may name, equally long; at least one.
        """
        computed = {o.name: o.expression for o in self._outputs if o.ref is None}
        results = evaluate_all(frame, computed) if computed else {}
        return [
            (frame[o.ref] if o.ref is not None else results[o.name]).cast(o.column.type.arrow())
            for o in self._outputs
        ]

    def passes(self, frame: Mapping[str, pa.Array]) -> list[bool]:
        """Whether each row passes the condition; NULL does not, without a condition all do."""
        if self._condition is None:
            return [True] * len(next(iter(frame.values())))
        result = evaluate_all(frame, {_CONDITION: self._condition})[_CONDITION]
        return [bool(v) for v in result.to_pylist()]


def evaluate(made: Expression, frame: Mapping[str, pa.Array]) -> pa.Array:
    """One expression over named arrays, in DuckDB's own Arrow type."""
    return evaluate_all(frame, {_CONDITION: made})[_CONDITION]


def evaluate_text(sql: str, result: SqlType, frame: Mapping[str, pa.Array]) -> pa.Array:
    """The same of text that came to an executor as a value: there is no plan to ask there."""
    return evaluate(Expression(sql, result, functions=tuple(calls_in(sql))), frame)


def evaluate_all(
    frame: Mapping[str, pa.Array], wanted: Mapping[str, Expression]
) -> dict[str, pa.Array]:
    """Several expressions over named arrays by their names, in DuckDB's own Arrow types."""
    from holdfast.tasks.functions.in_duckdb import register

    select = ", ".join(f'{sql} AS "{name}"' for name, sql in wanted.items())
    connection = engine()
    register(connection, (name for made in wanted.values() for name in made.functions))
    connection.register("batch", pa.table(dict(frame)))
    try:
        result = connection.sql(f"SELECT {select} FROM batch").to_arrow_table()
    finally:
        connection.unregister("batch")
    # By position: DuckDB renames columns whose names differ only in case.
    return {name: _plain(result.column(i)) for i, name in enumerate(wanted)}


def _plain(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        chunks = combined.chunks
        return pa.concat_arrays(chunks) if chunks else pa.array([], combined.type)
    return combined
