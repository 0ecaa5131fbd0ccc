"""Expressions over finished aggregates: SELECT's outputs and HAVING.

A plain reference costs nothing; anything else is one DuckDB query over the batch's Arrow
columns.  DuckDB is in process and needs no rows in Python (ADR 3).
"""

from __future__ import annotations

from functools import cached_property

import duckdb
import pyarrow as pa

from holdfast.types.topology import AggregateStep

__all__ = ["Outputs"]

_HAVING = "__having"


class Outputs:
    """Evaluates one step's output columns and HAVING condition."""

    def __init__(self, step: AggregateStep) -> None:
        self._outputs = step.outputs
        self._having = step.having

    @cached_property
    def _engine(self) -> duckdb.DuckDBPyConnection:
        engine = duckdb.connect(config={"threads": 1, "memory_limit": "512MB"})
        engine.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = true")
        # It would take what occurs twice out of its TRY(...), and an error would not become NULL.
        engine.execute("SET disabled_optimizers = 'common_subexpressions'")
        return engine

    def columns(self, frame: dict[str, pa.Array]) -> list[pa.Array]:
        """One array per output column, from key columns, window bounds and aggregates."""
        computed = {o.column.name: o.duckdb for o in self._outputs if o.ref is None}
        results = self._evaluate(frame, computed) if computed else {}
        return [
            (frame[o.ref] if o.ref is not None else results[o.column.name]).cast(
                o.column.type.arrow()
            )
            for o in self._outputs
        ]

    def having(self, frame: dict[str, pa.Array]) -> list[bool]:
        """Per row: does it pass HAVING (an unknown does not)."""
        if self._having is None:
            raise ValueError("this step has no HAVING")
        result = self._evaluate(frame, {_HAVING: self._having})[_HAVING]
        return [bool(v) for v in result.to_pylist()]

    def _evaluate(self, frame: dict[str, pa.Array], wanted: dict[str, str]) -> dict[str, pa.Array]:
        select = ", ".join(f'{sql} AS "{name}"' for name, sql in wanted.items())
        self._engine.register("batch", pa.table(frame))
        try:
            result = self._engine.sql(f"SELECT {select} FROM batch").to_arrow_table()
        finally:
            self._engine.unregister("batch")
        combined = {name: result[name].combine_chunks() for name in wanted}
        return {n: _plain(c) for n, c in combined.items()}


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
    return column
