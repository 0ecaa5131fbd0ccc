"""Encodes columns to Avro a column at a time: rows are joined from the bytes of their columns.

The bytes of a row depend on its values alone, so that equal keys have equal bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import SchemaRefused
from holdfast.tasks.registered.avro_defaults import default_bytes, varint
from holdfast.tasks.registered.avro_pieces import (
    binary,
    constant,
    decimals,
    followed,
    grouped,
    varints,
)
from holdfast.tasks.registered.avro_schema import AvroField, AvroNode, map_parts, parse_avro
from holdfast.types.columns.byte_columns import fixed
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.columns.schemas import DataSchema

__all__ = ["AvroEncoder", "field_of"]

_Encode: TypeAlias = "Callable[[pa.Array], pa.Array]"
"""A BINARY array without nulls; the bytes of NULL mean nothing."""
_HEADER = struct.Struct(">BI")
_INTEGERS = (Base.INTEGER, Base.BIGINT)


class AvroEncoder:
    """Encodes the rows of one sink's columns."""

    def __init__(self, data: DataSchema, columns: Sequence[Column], *, unwrapped: bool) -> None:
        """Raises `SchemaRefused`: the schema cannot hold the columns."""
        assert data.id is not None
        root = parse_avro(data.schema)
        self._header = _HEADER.pack(0, data.id)
        self._unwrapped = unwrapped
        self._encode: Callable[[Sequence[pa.Array]], pa.Array]
        if unwrapped:
            make = _union if root.kind == "union" else _plain  # a NULL has no payload
            whole = make(root, columns[0].type, columns[0].name)
            self._encode = lambda arrays: whole(arrays[0])
        elif root.kind != "record":
            raise SchemaRefused(
                f"The schema {data.id} is of type {root.label}, but the columns need a record.",
                action="WRAP_SINGLE_VALUE=false writes a single column without one",
            )
        else:
            self._encode = _record(root, columns, "")

    def encode(self, arrays: Sequence[pa.Array]) -> list[bytes | None]:
        """One payload per row; None for a NULL that is the only, unwrapped column.

        Raises:
            SchemaRefused: a value does not fit the schema.
        """
        bodies = self._encode(arrays)
        payloads = pc.binary_join_element_wise(constant(self._header), bodies, b"")
        if self._unwrapped and arrays[0].null_count:
            payloads = pc.if_else(arrays[0].is_valid(), payloads, pa.scalar(None, pa.binary()))
        made: list[bytes | None] = payloads.to_pylist()
        return made


def field_of(record: AvroNode, name: str) -> AvroField | None:
    """The field of a column: of that name, or the last one that has it in upper case."""
    exact = next((f for f in record.fields if f.name == name), None)
    folded = [f for f in record.fields if f.name.upper() == name]
    return exact or (folded[-1] if folded else None)


def _record(
    record: AvroNode, columns: Sequence[Column], path: str
) -> Callable[[Sequence[pa.Array]], pa.Array]:
    places = {id(f): i for i, c in enumerate(columns) if (f := field_of(record, c.name))}
    if len(places) < len(columns):
        missing = [c.name for c in columns if field_of(record, c.name) is None]
        raise SchemaRefused(f"The schema's {record.label} has no field for {', '.join(missing)}.")
    parts: list[tuple[int, _Encode] | bytes] = []
    for each in record.fields:
        at = places.get(id(each))
        if at is None:
            parts.append(_default(each, record))
        else:
            kind = columns[at].type
            parts.append((at, _filled(each, kind, f"{path}{columns[at].name}")))

    def encode(arrays: Sequence[pa.Array]) -> pa.Array:
        rows = len(arrays[0])
        made = [p if isinstance(p, bytes) else p[1](arrays[p[0]]) for p in parts]
        return followed(made, rows)

    return encode


def _default(field: AvroField, record: AvroNode) -> bytes:
    """The bytes of a field without a column: its default, or null."""
    nulls = [i for i, b in enumerate(field.type.branches) if b.kind == "null"]
    if field.has_default:
        return default_bytes(field)
    if field.type.kind == "null":
        return b""
    if nulls:
        return varint(nulls[0])
    raise SchemaRefused(
        f"The schema's {record.label} has the field {field.name}, which no column fills.",
        action="add a column of that name to the SELECT, or use a schema without it",
    )


def _filled(field: AvroField, kind: SqlType, path: str) -> _Encode:
    """The encoder of a field; where it takes no null but has a default, NULL is the default."""
    if field.type.kind == "union" or not field.has_default:
        return _encoder(field.type, kind, path)
    inner, default = _plain(field.type, kind, path), constant(default_bytes(field))

    def encode(column: pa.Array) -> pa.Array:
        made = inner(column)
        return pc.if_else(column.is_valid(), made, default) if column.null_count else made

    return encode


def _encoder(node: AvroNode, kind: SqlType, path: str) -> _Encode:
    if node.kind == "union":
        return _union(node, kind, path)
    inner = _plain(node, kind, path)

    def encode(column: pa.Array) -> pa.Array:
        if column.null_count:
            raise SchemaRefused(
                f"{path} is NULL in {column.null_count} rows, but the schema's {node.label} takes "
                "no null.",
                action="use a schema with a union with null there, or COALESCE in the SELECT",
            )
        return inner(column)

    return encode


def _union(node: AvroNode, kind: SqlType, path: str) -> _Encode:
    null = next((i for i, b in enumerate(node.branches) if b.kind == "null"), None)
    for at, branch in enumerate(node.branches):
        if branch.kind == "null":
            continue
        try:
            inner = _plain(branch, kind, path)
        except SchemaRefused:
            continue
        return _chosen(inner, varint(at), None if null is None else varint(null), path)
    raise _misfit(node, kind, path)


def _chosen(inner: _Encode, there: bytes, null: bytes | None, path: str) -> _Encode:
    def encode(column: pa.Array) -> pa.Array:
        made = followed([there, inner(column)], len(column))
        if not column.null_count:
            return made
        if null is None:
            raise SchemaRefused(f"{path} is NULL, but the schema's union has no null.")
        return pc.if_else(column.is_valid(), made, pa.scalar(null, pa.binary()))

    return encode


def _plain(node: AvroNode, kind: SqlType, path: str) -> _Encode:
    """The encoder of values that are not null."""
    simple = _simple(node, kind)
    if simple is not None:
        return simple
    parts = map_parts(node)
    if kind.base is Base.MAP and kind.element is not None:
        if parts is not None:
            return _entries(parts, kind, path)
        if node.kind == "map" and node.items is not None and kind.map_key.base is Base.STRING:
            return _entries((AvroNode("string"), node.items), kind, path)
    if kind.base is Base.ARRAY and kind.element is not None and node.kind == "array":
        assert node.items is not None
        return _list(_encoder(node.items, kind.element, f"{path}[]"))
    if kind.base is Base.STRUCT and node.kind == "record":
        made = _record(node, kind.fields, f"{path}->")
        return _present(lambda column: made([_field(column, i) for i in range(len(kind.fields))]))
    raise _misfit(node, kind, path)


def _present(inner: _Encode) -> _Encode:
    """Only structs that are there: whether their fields may be NULL says nothing about others."""

    def encode(column: pa.Array) -> pa.Array:
        if not column.null_count:
            return inner(column)
        there = column.is_valid()
        valid = there.to_numpy(zero_copy_only=False)
        places = pa.array(np.cumsum(valid) - 1, mask=~valid)
        return inner(column.filter(there)).take(places).fill_null(b"")

    return encode


def _misfit(node: AvroNode, kind: SqlType, path: str) -> SchemaRefused:
    return SchemaRefused(f"The schema's {node.label} cannot hold {path}, which is {kind}.")


def _simple(node: AvroNode, kind: SqlType) -> _Encode | None:  # noqa: PLR0911 - one line per type
    base = kind.base
    if node.logical == "decimal":
        return _decimal(node) if base is Base.DECIMAL else None
    if node.kind == "boolean" and base is Base.BOOLEAN:
        return lambda c: fixed(_numbers(c.cast(pa.uint8()), np.uint8))
    if (node.kind == "int" and base is Base.INTEGER) or (node.kind == "long" and base in _INTEGERS):
        return lambda c: varints(_numbers(c, np.int64))
    if node.kind in ("double", "float") and base is Base.DOUBLE:
        width = "<f8" if node.kind == "double" else "<f4"
        return lambda c: fixed(_numbers(c, np.float64).astype(width))
    if node.kind == "string" and base is Base.STRING:
        return lambda c: binary(c.cast(pa.binary()))
    if node.kind == "bytes" and base is Base.BYTES:
        return binary
    if node.kind == "enum" and base is Base.STRING:
        return _enum(node)
    if node.kind == "fixed" and base is Base.BYTES:
        return _fixed(node)
    return _time(node, base)


def _time(node: AvroNode, base: Base) -> _Encode | None:
    if node.kind == "int" and base is Base.DATE:
        return lambda c: varints(_numbers(c.cast(pa.int32()), np.int64))
    if node.kind == "int" and base is Base.TIME:
        return lambda c: varints(_numbers(c, np.int64))
    if node.kind == "long" and base is Base.TIMESTAMP:
        unit = 1 if node.logical.endswith("micros") else 1_000
        return lambda c: varints(_numbers(c.cast(pa.int64()), np.int64) // unit)
    return None


def _numbers(column: pa.Array, dtype: type[np.generic]) -> npt.NDArray[Any]:
    whole = column.fill_null(0) if column.null_count else column
    found: npt.NDArray[Any] = whole.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
    return found


def _enum(node: AvroNode) -> _Encode:
    symbols = pa.array(node.symbols, pa.string())

    def encode(column: pa.Array) -> pa.Array:
        places = pc.index_in(column, symbols)
        if places.null_count > column.null_count:
            odd = column.filter(pc.and_(places.is_null(), column.is_valid()))[0].as_py()
            raise SchemaRefused(f"{odd!r} is no symbol of the schema's {node.label}.")
        return varints(_numbers(places, np.int64))

    return encode


def _fixed(node: AvroNode) -> _Encode:
    def encode(column: pa.Array) -> pa.Array:
        if pc.all(pc.equal(pc.binary_length(column), node.size)).as_py() is False:
            raise SchemaRefused(f"The schema's {node.label} takes {node.size} bytes exactly.")
        return column.fill_null(bytes(node.size))

    return encode


def _decimal(node: AvroNode) -> _Encode:
    kind = pa.decimal128(min(node.precision, 38), min(node.scale, 38))

    def encode(column: pa.Array) -> pa.Array:
        try:
            fitted = column.cast(kind)
        except pa.ArrowInvalid as error:
            raise SchemaRefused(f"The schema's {node.label} cannot hold a value: {error}") from None
        if node.kind == "bytes":
            return binary(decimals(fitted, None))
        return decimals(fitted, node.size)

    return encode


def _list(element: _Encode) -> _Encode:
    def encode(column: pa.Array) -> pa.Array:
        return grouped(element(column.flatten()), pc.list_value_length(column).fill_null(0))

    return encode


def _entries(parts: tuple[AvroNode, AvroNode], kind: SqlType, path: str) -> _Encode:
    assert kind.element is not None
    key = _encoder(parts[0], kind.map_key, f"{path}->MAP_KEY")
    value = _encoder(parts[1], kind.element, f"{path}->MAP_VAL")

    def encode(column: pa.Array) -> pa.Array:
        entries = column.cast(pa.list_(pa.struct(list(_entry_fields(column.type)))))
        flat = entries.flatten()
        made = followed([key(flat.field(0)), value(flat.field(1))], len(flat))
        return grouped(made, pc.list_value_length(entries).fill_null(0))

    return encode


def _entry_fields(kind: pa.MapType) -> tuple[pa.Field, pa.Field]:
    return pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)


def _field(column: pa.Array, at: int) -> pa.Array:
    return column.field(at) if not column.offset else column.flatten()[at]
