"""Decoded rows → result rows: plain columns as they are, everything else by DuckDB."""

from __future__ import annotations

import threading
from collections.abc import Collection

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import QueryTimedOut, QueryTooLarge, Refused
from holdfast.serve.contract import PRESENT
from holdfast.sql.reads import Read
from holdfast.tasks.functions.in_duckdb import register
from holdfast.tasks.outputs import engine

__all__ = ["Evaluation", "Interrupt", "present"]

_ROWS = "rows_read"


class Interrupt:
    """Ends what a thread's DuckDB computes, from another thread."""

    def __init__(self) -> None:
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._lock = threading.Lock()  # the connection's next query must not be hit
        self._asked = False

    def begin(self, connection: duckdb.DuckDBPyConnection) -> None:
        """From now on this connection computes.

        Raises:
            QueryTimedOut: nobody waits for it any more.
        """
        with self._lock:
            if self._asked:
                raise QueryTimedOut("the query had ended before it was computed")
            self._connection = connection

    def end(self) -> None:
        """It has computed."""
        with self._lock:
            self._connection = None

    def ask(self) -> bool:
        """Interrupts what runs.  Ask again while it says True: DuckDB hears it once it computes."""
        with self._lock:
            self._asked = True
            if self._connection is not None:
                self._connection.interrupt()
            return self._connection is not None


class Evaluation:
    """What a read makes of rows.

    Args:
        read: what was planned.
        filtered: whether the rows that come are only those that pass WHERE.
    """

    def __init__(self, read: Read, *, filtered: bool) -> None:
        self._read = read
        self.schema = pa.schema([pa.field(c.name, c.type.arrow()) for c in read.columns])
        self._condition = None if filtered else read.condition
        self._refs = [o.ref for o in read.outputs if o.ref is not None]
        self.plain = (
            self._condition is None
            and read.grouping is None
            and len(self._refs) == len(read.outputs)
        )
        self._outputs = ", ".join(f'{o.duckdb} AS "__o{i}"' for i, o in enumerate(read.outputs))

    @property
    def output_refs(self) -> list[str | None]:
        """Of each output the column of the rows that it is, if it is nothing more."""
        return [o.ref for o in self._read.outputs]

    @property
    def refs(self) -> list[str]:
        """Of a plain read, which columns of the rows the result's are."""
        return self._refs

    def over(self, rows: pa.Table, interrupt: Interrupt | None = None) -> pa.Table:
        """The result of rows that are all present.  In a worker thread, unless it is `plain`."""
        if self.plain:
            return rows.select(self._refs).rename_columns(self.schema.names).cast(self.schema)
        where = "" if self._condition is None else f" WHERE {self._condition}"
        text = f"SELECT {self._outputs} FROM {self._source(where)}"
        return self._typed(_run(text, rows, interrupt), self.schema)

    def _source(self, where: str) -> str:
        grouping = self._read.grouping
        if grouping is None:
            return f"{_ROWS}{where}"
        inner = ", ".join(f'{sql} AS "{name}"' for name, sql in grouping.columns) or "1"
        by = ", ".join(str(i + 1) for i in range(grouping.groups))
        grouped = f"SELECT {inner} FROM {_ROWS}{where}" + (f" GROUP BY {by}" if by else "")
        having = "" if grouping.having is None else f" WHERE {grouping.having}"
        return f"({grouped}){having}"

    def every(self, rows: pa.Table) -> tuple[pa.Table, list[bool]]:
        """The outputs of all rows, and which of them pass WHERE."""
        condition = self._condition or "true"
        text = f'SELECT {self._outputs}, {condition} AS "__c" FROM {_ROWS}'
        if self.plain:
            return self.over(rows), [True] * len(rows)
        found = _run(text, rows, None)
        passes = [bool(v) for v in found.column(found.num_columns - 1).to_pylist()]
        kept = found.select(range(found.num_columns - 1))
        return self._typed(kept, self.schema), passes

    def looks_only_at(self, names: Collection[str], rows: pa.Schema) -> bool:
        """Whether no other column of the rows decides about WHERE."""
        condition = self._condition or ""
        return all(n in names or f'"{n}"' not in condition for n in rows.names)

    def needed(self, rows: pa.Table) -> pa.Table:
        """The rows with only those columns that are evaluated."""
        grouping = self._read.grouping
        texts = [self._outputs, self._condition or ""]
        texts += [sql for _, sql in grouping.columns] if grouping is not None else []
        names = [n for n in rows.column_names if any(f'"{n}"' in t for t in texts)]
        return rows.select(names or rows.column_names[:1])

    def _typed(self, found: pa.Table, schema: pa.Schema) -> pa.Table:
        return found.rename_columns(schema.names).cast(schema)


def _run(text: str, rows: pa.Table, interrupt: Interrupt | None) -> pa.Table:
    connection = engine()
    register(connection, [text])
    if interrupt is not None:
        interrupt.begin(connection)
    connection.register(_ROWS, rows)
    try:
        return connection.sql(text).to_arrow_table()
    except duckdb.OutOfMemoryException as error:
        raise QueryTooLarge(
            f"the query needs more memory than one may have: {_first_line(error)}",
            action="ask for fewer rows, or keep the aggregate in a table (CREATE TABLE ... AS).",
        ) from error
    except duckdb.InterruptException as error:
        raise QueryTimedOut("the query was ended: nobody waits for it any more") from error
    except duckdb.Error as error:
        raise Refused(f"the query cannot be evaluated: {_first_line(error)}") from error
    finally:
        if interrupt is not None:
            interrupt.end()
        connection.unregister(_ROWS)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def present(rows: pa.Table) -> pa.Table:
    """The rows that the table has, of what `decode` gave."""
    there = rows.column(PRESENT)
    return rows if pc.all(there).as_py() is not False else rows.filter(there)
