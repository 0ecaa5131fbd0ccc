"""Python functions in DuckDB, and DuckDB's expressions as a function for Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from holdfast.tasks.functions.base import Types
from holdfast.tasks.functions.names import split_name
from holdfast.tasks.functions.registry import arrow_function, lookup
from holdfast.types.schema import Base, SqlType

__all__ = ["duck", "register", "type_name", "zoneless"]

_THREAD = threading.local()
_NAMES = {Base.STRING: "VARCHAR", Base.BYTES: "BLOB", Base.TIME: "INTEGER"}


def register(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Registers Python functions with this thread's connection, by their names in SQL."""
    known: set[str] | None = getattr(_THREAD, "known", None)
    if known is None:
        known = _THREAD.known = set()
    for name in set(names) - known:
        if lookup(split_name(name)[0]) is not None:  # otherwise a literal that looks like a call
            _create(connection, name)
            known.add(name)


def _create(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    _, result, _ = split_name(name)
    function = arrow_function(name)
    wanted = zoneless(result.arrow())

    def call(*columns: Any) -> pa.Array:
        return function(*(_whole(c) for c in columns)).cast(wanted)

    connection.create_function(
        name,
        call,
        None,  # any arguments: the name carries their types
        type_name(result),
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def duck(types: Types, columns: list[pa.Array]) -> pa.Array:
    """Evaluates DuckDB SQL (the first column's only value) over the others as a0, a1 and so on."""
    from holdfast.tasks.evaluate.outputs import (
        evaluate_text,  # this registers the functions of the text
    )

    text, *rest = columns
    frame = {f"a{i}": c.cast(zoneless(c.type)) for i, c in enumerate(rest)} or {"a0": text}
    if not len(text):
        return pa.array([], types.result.arrow())
    return evaluate_text(text[0].as_py(), types.result, frame).cast(types.result.arrow())


def zoneless(arrow: pa.DataType) -> pa.DataType:
    """The type with timestamps without zone, as DuckDB has them here; they mean UTC."""
    if pa.types.is_timestamp(arrow):
        return pa.timestamp("us")
    if pa.types.is_list(arrow):
        return pa.list_(zoneless(arrow.value_type))
    if pa.types.is_map(arrow):
        return pa.map_(zoneless(arrow.key_type), zoneless(arrow.item_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, zoneless(f.type)) for f in arrow])
    return arrow


def type_name(sql_type: SqlType) -> str:
    """A type in DuckDB's DDL."""
    if sql_type.base is Base.ARRAY and sql_type.element is not None:
        return f"{type_name(sql_type.element)}[]"
    if sql_type.base is Base.MAP and sql_type.element is not None:
        return f"MAP({type_name(sql_type.map_key)}, {type_name(sql_type.element)})"
    if sql_type.base is Base.STRUCT:
        quoted = ('"' + f.name.replace('"', '""') + '"' for f in sql_type.fields)
        types = (type_name(f.type) for f in sql_type.fields)
        return f"STRUCT({', '.join(map(' '.join, zip(quoted, types, strict=True)))})"
    return _NAMES.get(sql_type.base, str(sql_type))
