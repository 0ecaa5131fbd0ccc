"""Turns decoded rows into result rows: plain columns directly, others by DuckDB in a worker."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.serve.contract import PRESENT
from holdfast.serve.workers.calls import ROWS, evaluated, packed, unpacked
from holdfast.serve.workers.pool import Interrupt, Workers
from holdfast.sql.read.asked import Read

__all__ = ["Evaluation", "present"]


class Evaluation:
    """Evaluates a read over rows.

    Args:
        read: the plan.
        workers: evaluate expressions other than plain columns.
        bytes_max: size of a result.
        filtered: whether all rows given are known to pass WHERE.
    """

    def __init__(self, read: Read, workers: Workers, bytes_max: int, *, filtered: bool) -> None:
        self._read = read
        self._workers = workers
        self._bytes_max = bytes_max
        self.schema = pa.schema([pa.field(c.name, c.type.arrow()) for c in read.columns])
        self._condition = None if filtered else read.condition
        self._refs = [o.ref for o in read.outputs if o.ref is not None]
        self.plain = (
            self._condition is None
            and read.grouping is None
            and len(self._refs) == len(read.outputs)
        )
        self._outputs = ", ".join(f'{o.sql} AS "__o{i}"' for i, o in enumerate(read.outputs))
        where = () if self._condition is None else (self._condition,)
        every = (*where, *read.over_rows, *read.over_groups)
        self._decides = {name for each in where for name in each.columns}
        self._reads = self._decides.union(*(each.columns for each in read.over_rows))
        self._functions = sorted({name for each in every for name in each.functions})

    @property
    def output_refs(self) -> list[str | None]:
        """For each output, the column that it refers to, or None if it is an expression."""
        return [o.ref for o in self._read.outputs]

    @property
    def refs(self) -> list[str]:
        """The columns that a plain read selects."""
        return self._refs

    def over(self, rows: pa.Table, interrupt: Interrupt | None = None) -> pa.Table:
        """The result over rows that are all present.  Call it in a thread, unless it is `plain`."""
        if self.plain:
            return rows.select(self._refs).rename_columns(self.schema.names).cast(self.schema)
        where = "" if self._condition is None else f" WHERE {self._condition}"
        text = f"SELECT {self._outputs} FROM {self._source(where)}"
        return self._typed(self._run(text, rows, interrupt), self.schema)

    def _source(self, where: str) -> str:
        grouping = self._read.grouping
        if grouping is None:
            return f"{ROWS}{where}"
        inner = ", ".join(f'{each.sql} AS "{each.name}"' for each in grouping.columns) or "1"
        by = ", ".join(str(i + 1) for i in range(grouping.groups))
        grouped = f"SELECT {inner} FROM {ROWS}{where}" + (f" GROUP BY {by}" if by else "")
        having = "" if grouping.having is None else f" WHERE {grouping.having}"
        return f"({grouped}){having}"

    def every(self, rows: pa.Table) -> tuple[pa.Table, list[bool]]:
        """The outputs of all rows, and whether each row passes WHERE."""
        condition = "true" if self._condition is None else self._condition.sql
        text = f'SELECT {self._outputs}, {condition} AS "__c" FROM {ROWS}'
        if self.plain:
            return self.over(rows), [True] * len(rows)
        found = self._run(text, rows, None)
        passes = [bool(v) for v in found.column(found.num_columns - 1).to_pylist()]
        kept = found.select(range(found.num_columns - 1))
        return self._typed(kept, self.schema), passes

    def looks_only_at(self, names: Collection[str], rows: pa.Schema) -> bool:
        """Whether WHERE depends on these columns only."""
        return self._decides.isdisjoint(set(rows.names).difference(names))

    def needed(self, rows: pa.Table) -> pa.Table:
        """The rows with only the columns that the evaluation needs."""
        names = [n for n in rows.column_names if n in self._reads]
        return rows.select(names or rows.column_names[:1])

    def _run(self, text: str, rows: pa.Table, interrupt: Interrupt | None) -> pa.Table:
        sent = packed(self.needed(rows))
        return unpacked(
            self._workers.call(
                evaluated, text, self._functions, sent, self._bytes_max, interrupt=interrupt
            )
        )

    def _typed(self, found: pa.Table, schema: pa.Schema) -> pa.Table:
        return found.rename_columns(schema.names).cast(schema)


def present(rows: pa.Table) -> pa.Table:
    """The decoded rows that the table has."""
    there = rows.column(PRESENT)
    return rows if pc.all(there).as_py() is not False else rows.filter(there)
