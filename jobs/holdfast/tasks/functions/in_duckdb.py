"""Python functions in DuckDB, and columns on their way into it and back."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from holdfast.tasks.functions.names import split_name
from holdfast.tasks.functions.registry import arrow_function, lookup
from holdfast.types.statements.expressions import struct_names, type_name

__all__ = ["from_duckdb", "register", "to_duckdb"]

_THREAD = threading.local()


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
    _, result, types = split_name(name)
    function = arrow_function(name)

    def call(*columns: Any) -> pa.Array:
        given = (_argument(_whole(c), t.arrow()) for c, t in zip(columns, types, strict=True))
        return to_duckdb(function(*given))

    connection.create_function(
        name,
        call,
        None,  # any arguments: the name carries their types
        type_name(result),
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )


def _argument(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return column if _names(column.type) == _names(wanted) else from_duckdb(column, wanted)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def to_duckdb(column: pa.Array) -> pa.Array:
    """A column as DuckDB takes it: times without zone, fields of structs by their names there."""
    return _moved(column, duck_arrow(column.type))


def from_duckdb(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """DuckDB's result as a column of the wanted type, whose fields may have other names."""
    return _moved(column, wanted)


def _moved(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type == wanted:
        return column
    if _names(column.type) == _names(wanted):
        return column.cast(wanted)
    return pa.array([_value(v, column.type, wanted) for v in column.to_pylist()], wanted)


def _names(arrow: pa.DataType) -> list[str]:
    """The names of all fields of structs in a type, from outside to inside."""
    own = [f.name for f in arrow] if pa.types.is_struct(arrow) else []
    return own + [name for part in _parts(arrow) for name in _names(part)]


def _parts(arrow: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_list(arrow):
        return [arrow.value_type]
    if pa.types.is_map(arrow):
        return [arrow.key_type, arrow.item_type]
    return [f.type for f in arrow] if pa.types.is_struct(arrow) else []


def _value(value: Any, given: pa.DataType, wanted: pa.DataType) -> Any:
    """A value with the names of another type's fields; an empty struct has one field in DuckDB."""
    if value is None or not pa.types.is_nested(given):
        return value
    if pa.types.is_list(given):
        return [_value(v, given.value_type, wanted.value_type) for v in value]
    if pa.types.is_map(given):
        return [(k, _value(v, given.item_type, wanted.item_type)) for k, v in value]
    pairs = zip(given, wanted, strict=False)
    return {w.name: _value(value[g.name], g.type, w.type) for g, w in pairs}


def duck_arrow(arrow: pa.DataType) -> pa.DataType:
    """The type that DuckDB takes for a type: timestamps without zone mean UTC."""
    if pa.types.is_timestamp(arrow):
        return pa.timestamp("us")
    if pa.types.is_list(arrow):
        return pa.list_(duck_arrow(arrow.value_type))
    if pa.types.is_map(arrow):
        return pa.map_(duck_arrow(arrow.key_type), duck_arrow(arrow.item_type))
    if pa.types.is_struct(arrow):
        types = [duck_arrow(f.type) for f in arrow] or [pa.bool_()]
        return pa.struct(list(zip(struct_names([f.name for f in arrow]), types, strict=True)))
    return arrow
