"""The functions that are called in workers: all work whose cost a client's text determines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import duckdb
import pyarrow as pa

from holdfast.errors import HoldfastError, InvalidStatement, QueryTooLarge, Refused
from holdfast.sql import compile_text
from holdfast.sql.parse.cursor import MisplacedError
from holdfast.sql.parse.dialect import UnclosedError, tokenize
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import Name, SelectQuery, Statement
from holdfast.sql.parse.text import Definitions, Place, parse, statement_places
from holdfast.sql.parse.variables import Substituted
from holdfast.sql.read.asked import Read
from holdfast.sql.read.plan import parse_read, plan_read
from holdfast.tasks.evaluate.outputs import engine
from holdfast.tasks.functions.in_duckdb import register
from holdfast.tasks.functions.limits import noted
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schemas import Registered
from holdfast.types.statements.sources import Source
from holdfast.types.statements.topology import Topology

__all__ = [
    "ROWS",
    "evaluated",
    "packed",
    "planned",
    "planned_after",
    "source_of",
    "statements_in",
    "substituted",
    "unpacked",
]

_TEXT_MAX = 1 << 20  # characters of a statement after substitution
ROWS = "rows_read"  # the name of the input rows in a query's text


def source_of(sql: str) -> Name:
    """The stream or table that a SELECT reads.

    Raises:
        InvalidStatement: the statement is wrong, or not a SELECT.
    """
    return _parsed(sql)[1].select.source


def planned(sql: str, source: Source) -> Read:
    """The plan of a SELECT over its stream or table.

    Raises:
        InvalidStatement: the statement is wrong.
    """
    return plan_read(*_parsed(sql), source)


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """A statement with its variables substituted.

    Raises:
        InvalidStatement: a variable is undefined, not allowed there, or too large.
    """
    try:
        made = Substituted(text, tokenize(text), variables).written(0, len(text))
    except (MisplacedError, UnclosedError) as error:
        raise InvalidStatement(f"a variable cannot be substituted: {error}") from None
    if len(made) > _TEXT_MAX:
        raise InvalidStatement(
            f"with its variables the statement has {len(made)} characters, {_TEXT_MAX} are allowed"
        )
    return made


def statements_in(text: str) -> list[tuple[str, Statement | HoldfastError | None]]:
    """Each statement of a text, parsed; an error can only be the last one, None: a definition."""
    known, found = Definitions(), list[tuple[str, Statement | HoldfastError | None]]()
    for start, end in statement_places(text):
        one = text[start:end]
        try:
            parsed = parse(Script(one), known, place=Place.SESSION)
        except HoldfastError as error:
            found.append((one, error))
            break
        found.append((one, parsed[0] if parsed else None))
    return found


def planned_after(
    text: str, known: Topology, found: Sequence[Registered] | None = None
) -> Topology:
    """The topology of the known statements and a new one.

    Args:
        found: what the registry has for the new statement; None: there is no registry.

    Raises:
        InvalidStatement: the new statement is wrong.
    """
    if found is None:
        return compile_text(text, after=known)
    registry = MemoryRegistry()
    for each in found:
        registry.put(each.subject, each.schema, each.id)
    return compile_text(text, after=known, schemas=registry)


@lru_cache(maxsize=1)
def _parsed(sql: str) -> tuple[Script, SelectQuery]:
    """Parse a statement; cached, as `source_of` and `planned` mostly follow in the same worker."""
    return parse_read(sql)


def evaluated(text: str, functions: Sequence[str], rows: bytes, bytes_max: int) -> bytes:
    """The result of a query in DuckDB's SQL over `ROWS`; rows and result are in Arrow IPC.

    Args:
        functions: the Python functions that the query calls, by their names in SQL.

    Raises:
        QueryTooLarge: DuckDB runs out of memory, or the result is too large.
        Refused: the query cannot be evaluated.
    """
    made = _evaluated(text, functions, unpacked(rows))
    if made.nbytes > bytes_max:
        raise QueryTooLarge(
            f"the result of {len(made)} rows has {made.nbytes} bytes, {bytes_max} are allowed",
            action="ask for fewer rows or smaller values, or set serve.query.max.bytes.",
        )
    return packed(made)


def _evaluated(text: str, functions: Sequence[str], rows: pa.Table) -> pa.Table:
    connection = engine()
    register(connection, functions)
    connection.register(ROWS, rows)
    noted()
    try:
        made = connection.sql(text).to_arrow_table()
    except duckdb.OutOfMemoryException as error:
        raise QueryTooLarge(
            f"the query needs more memory than one query may use: {_first_line(error)}",
            action="ask for fewer rows, or keep the aggregate in a table (CREATE TABLE ... AS).",
        ) from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise Refused(f"the query cannot be evaluated: {_first_line(error)}") from error
    finally:
        connection.unregister(ROWS)
    if (large := noted()) is not None:
        raise QueryTooLarge(f"a value is too large: {large}", action="make smaller values.")
    return made


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def packed(rows: pa.Table) -> bytes:
    """A table in the format that is sent between processes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def unpacked(sent: bytes) -> pa.Table:
    """The table that `packed` was given."""
    return pa.ipc.open_stream(pa.py_buffer(sent)).read_all()
