"""Encodes columns to JSON as a JSON schema lays it out.

The bytes of a row depend on its values alone, so that equal keys have equal bytes.  A schema's
constraints (`enum`, `pattern`, `maximum` and others) are not checked, as in ksqlDB.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import SchemaRefused
from holdfast.tasks.evaluate.as_numbers import as_numbers
from holdfast.tasks.evaluate.json_values import json_texts, ready_value
from holdfast.tasks.registered.json_schema.nodes import (
    JsonField,
    JsonNode,
    bare,
    fields_by_column,
    takes_null,
)
from holdfast.tasks.registered.json_schema.parse import parse_json_schema
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.columns.schemas import DataSchema

__all__ = ["JsonEncoder"]

_Convert: TypeAlias = Callable[[Any], Any]
"""A value that is not None -> one that orjson writes."""
_Texts: TypeAlias = "Callable[[pa.Array], pa.Array]"
"""A column -> its JSON texts; null where the field is to be left out."""
_HEADER = struct.Struct(">BI")
_NESTED = (Base.ARRAY, Base.MAP, Base.STRUCT)
_HOLDS: dict[str, tuple[Base, ...]] = {
    "boolean": (Base.BOOLEAN,),
    "int32": (Base.INTEGER, Base.DATE, Base.TIME),
    "int64": (Base.INTEGER, Base.BIGINT, Base.DATE, Base.TIME, Base.TIMESTAMP),
    "float64": (Base.DOUBLE, Base.INTEGER, Base.BIGINT, Base.DECIMAL),
    "string": (Base.STRING,),
    "bytes": (Base.BYTES,),
    "decimal": (Base.DECIMAL,),
    "date": (Base.DATE,),
    "time": (Base.TIME,),
    "timestamp": (Base.TIMESTAMP,),
}
_LEFT_OUT = object()


class JsonEncoder:
    """Encodes the rows of one sink's columns."""

    def __init__(self, data: DataSchema, columns: Sequence[Column], *, unwrapped: bool) -> None:
        """Raises `SchemaRefused`: the schema cannot hold the columns."""
        assert data.id is not None
        root = bare(parse_json_schema(data.schema))
        self._header = _HEADER.pack(0, data.id)
        self._unwrapped = unwrapped
        self._texts: Callable[[Sequence[pa.Array]], pa.Array]
        if unwrapped:
            convert = _converter(root, columns[0].type, columns[0].name)
            whole = _texts(convert, columns[0].type)
            self._texts = lambda arrays: whole(arrays[0])
        elif root.kind != "struct":
            raise SchemaRefused(
                f"The schema {data.id} is {root.label}, but the columns need an object.",
                action="WRAP_SINGLE_VALUE=false writes a single column without one",
            )
        else:
            self._texts = _objects(root, columns)

    def encode(self, arrays: Sequence[pa.Array]) -> list[bytes | None]:
        """One payload per row; None for a NULL that is the only, unwrapped column.

        Raises:
            SchemaRefused: a value does not fit the schema.
        """
        bodies = self._texts(arrays).cast(pa.binary())
        payloads = pc.binary_join_element_wise(pa.scalar(self._header), bodies, b"")
        if self._unwrapped and arrays[0].null_count:
            payloads = pc.if_else(arrays[0].is_valid(), payloads, pa.scalar(None, pa.binary()))
        made: list[bytes | None] = payloads.to_pylist()
        return made


def _objects(root: JsonNode, columns: Sequence[Column]) -> Callable[[Sequence[pa.Array]], pa.Array]:
    found = _matched(root, columns)
    places = {id(found[c.name]): i for i, c in enumerate(columns)}
    parts: list[tuple[int, _Texts] | str] = []
    for each in root.fields:
        name, at = orjson.dumps(each.name).decode(), places.get(id(each))
        if at is not None:
            parts.append((at, _named_texts(each, name, columns[at])))
        elif (value := _of_null(each, each.name)) is not _LEFT_OUT:
            parts.append(f"{name}:{_dumped(value)}")

    def texts(arrays: Sequence[pa.Array]) -> pa.Array:
        made = [p if isinstance(p, str) else p[1](arrays[p[0]]) for p in parts]
        inner = pc.binary_join_element_wise(*made, ",", null_handling="skip")
        return pc.binary_join_element_wise("{", inner, "}", "")

    return texts


def _named_texts(field: JsonField, name: str, column: Column) -> _Texts:
    whole = _texts(_converter(field.type, column.type, column.name), column.type)

    def texts(array: pa.Array) -> pa.Array:
        found = whole(array)
        if array.null_count:
            value = _of_null(field, column.name)
            null = None if value is _LEFT_OUT else _dumped(value)
            found = pc.if_else(array.is_valid(), found, pa.scalar(null, pa.string()))
        return pc.binary_join_element_wise(f"{name}:", found, "")

    return texts


def _texts(convert: _Convert, kind: SqlType) -> _Texts:
    """Texts of values; those of NULLs mean nothing."""
    if kind.base not in _NESTED:
        return lambda array: json_texts(array, kind)

    def texts(array: pa.Array) -> pa.Array:
        values = as_numbers(array).to_pylist()
        made = ["" if v is None else _dumped(convert(v)) for v in values]
        return pa.array(made, pa.string())

    return texts


def _matched(node: JsonNode, columns: Sequence[Column]) -> dict[str, JsonField]:
    found = fields_by_column(node.fields, columns)
    missing = [c.name for c in columns if c.name not in found]
    if missing:
        raise SchemaRefused(
            f"Schema from Schema Registry misses field with name: {', '.join(missing)}"
        )
    return found


def _of_null(field: JsonField, path: str) -> Any:
    """The value for NULL, or for a field without a column; `_LEFT_OUT`: it is not written."""
    default = bare(field.type).default
    if default is not None:
        return default
    if takes_null(field.type):
        return None
    if not field.required:
        return _LEFT_OUT
    raise SchemaRefused(
        f"{path} has no value, but the schema requires one of type {bare(field.type).label}.",
        action='use a schema with {"oneOf": [{"type": "null"}, …]}, or COALESCE in the SELECT',
    )


def _converter(written: JsonNode, kind: SqlType, path: str) -> _Convert:
    node = bare(written)
    if node.kind in _HOLDS and kind.base in _HOLDS[node.kind] and _fits(node, kind):
        return lambda value: ready_value(value, kind)
    if node.kind == "union":
        return _union(node, kind, path)
    if node.kind == "array" and kind.base is Base.ARRAY:
        assert node.items is not None
        assert kind.element is not None
        element = _item(node.items, kind.element, f"{path}[]")
        return lambda value: [element(v) for v in value]
    if node.kind == "map" and kind.base is Base.MAP:
        return _map(node, kind, path)
    if node.kind == "struct" and kind.base is Base.STRUCT:
        return _struct(node, kind, path)
    raise SchemaRefused(f"The schema's {node.label} cannot hold {path}, which is {kind}.")


def _fits(node: JsonNode, kind: SqlType) -> bool:
    if node.kind != "decimal":
        return True
    return kind.scale <= node.scale and (kind.precision - kind.scale <= node.precision - node.scale)


def _item(node: JsonNode, kind: SqlType, path: str) -> _Convert:
    convert, field = _converter(node, kind, path), JsonField("", node, required=True)
    return lambda value: _of_null(field, path) if value is None else convert(value)


def _map(node: JsonNode, kind: SqlType, path: str) -> _Convert:
    assert node.items is not None
    assert kind.element is not None
    convert = _item(node.items, kind.element, f"{path}->MAP_VAL")
    if node.key is not None:
        key = _item(node.key, kind.map_key, f"{path}->MAP_KEY")
        return lambda value: [{"key": key(k), "value": convert(v)} for k, v in value]
    if kind.map_key.base is not Base.STRING:
        raise SchemaRefused(f"The schema's map has keys of text, but {path} is {kind}.")
    return lambda value: {k: convert(v) for k, v in value}


def _struct(node: JsonNode, kind: SqlType, path: str) -> _Convert:
    found = _matched(node, kind.fields)
    columns = {id(found[c.name]): c for c in kind.fields}
    steps: list[tuple[JsonField, str, _Convert | None]] = []
    for each in node.fields:
        column = columns.get(id(each))
        inner = f"{path}->{column.name if column else each.name}"
        convert = _converter(each.type, column.type, inner) if column is not None else None
        steps.append((each, column.name if column is not None else "", convert))

    def converted(value: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for field, name, convert in steps:
            given = value[name] if convert is not None else None
            part = (
                _of_null(field, f"{path}->{field.name}")
                if convert is None or given is None
                else convert(given)
            )
            if part is not _LEFT_OUT:
                made[field.name] = part
        return made

    return converted


def _union(node: JsonNode, kind: SqlType, path: str) -> _Convert:
    if kind.base is Base.STRUCT and (found := fields_by_column(node.fields, kind.fields)):
        steps = [
            (c.name, _converter(found[c.name].type, c.type, f"{path}->{c.name}"))
            for c in kind.fields
            if c.name in found
        ]
        return lambda value: next((f(value[n]) for n, f in steps if value[n] is not None), None)
    for each in node.fields:
        try:
            return _converter(each.type, kind, path)
        except SchemaRefused:
            continue
    raise SchemaRefused(f"The schema's {node.label} cannot hold {path}, which is {kind}.")


def _dumped(value: Any) -> str:
    return orjson.dumps(value, default=_plain).decode()


def _plain(value: Any) -> Any:
    """Numbers of a schema, which were parsed exactly, for orjson."""
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    raise TypeError(f"{value!r} is no JSON")
