"""Converters of parsed JSON, by the schema that wrote it and the SQL type that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from holdfast.ingest.formats.base import Undecodable
from holdfast.ingest.formats.json.slow import (
    Converter,
    Fields,
    by_name,
    converter,
    mismatch,
    named,
)
from holdfast.ingest.formats.text import fit_unscaled, parse_base64
from holdfast.tasks.registered.json_schema.nodes import JsonField, JsonNode, bare, fields_by_column
from holdfast.types.columns.schema import STRING, Base, Column, SqlType

__all__ = ["READS", "field_converter", "record_converter"]

_WHOLE = (
    Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.DECIMAL, Base.STRING,
    Base.DATE, Base.TIME, Base.TIMESTAMP,
)  # fmt: skip
READS: dict[str, tuple[Base, ...]] = {
    "boolean": (Base.BOOLEAN, Base.STRING),
    "int32": _WHOLE,
    "int64": _WHOLE,
    "float64": (Base.DOUBLE, Base.DECIMAL, Base.STRING),
    "decimal": (Base.DECIMAL,),
    "string": (Base.STRING,),
    "bytes": (Base.BYTES,),
    "date": (Base.DATE, Base.INTEGER, Base.BIGINT, Base.STRING),
    "time": (Base.TIME, Base.INTEGER, Base.BIGINT, Base.STRING),
    "timestamp": (Base.TIMESTAMP, Base.BIGINT, Base.STRING),
}
"""The SQL types that a simple type can be read as: ksqlDB's, and numbers of other sizes."""


def record_converter(root: JsonNode, columns: Sequence[Column]) -> Callable[[object], list[object]]:
    """Converts a record that is an object to the values of the columns.

    Raises:
        Undecodable: the schema has a column as a type that cannot be read as its own.
    """
    if root.kind == "unsupported":
        return by_name(columns)
    names = [c.name for c in columns]
    convert = _union_struct if root.kind == "union" else _struct
    made = convert(root, columns, "")

    def converted(document: object) -> list[object]:
        row = made(document)
        return [row[name] for name in names]

    return converted


def field_converter(written: JsonNode, kind: SqlType, path: str) -> Converter:
    """Converts the value of one field.

    Raises:
        Undecodable: what the schema has cannot be read as the type.
    """
    node = bare(written)
    if node.kind == "unsupported":
        return converter(kind)
    if node.kind in READS and kind.base in READS[node.kind]:
        return _decimal(node.scale, kind) if node.kind == "decimal" else converter(kind)
    if node.kind == "union":
        return _union(node, kind, path)
    if node.kind == "array" and kind.base is Base.ARRAY:
        return _array(node, kind, path)
    if node.kind == "map" and kind.base is Base.MAP:
        return _map(node, kind, path)
    if node.kind == "struct" and kind.base is Base.STRUCT:
        return _struct(node, kind.fields, f"{path}->")
    raise Undecodable(f"its {node.label} cannot be read as {path} {kind}")


def _decimal(scale: int, kind: SqlType) -> Converter:
    of_number = converter(kind)

    def convert(value: object) -> object:
        if type(value) is str:
            return fit_unscaled(parse_base64(value), scale, kind)
        return of_number(value)

    return convert


def _array(node: JsonNode, kind: SqlType, path: str) -> Converter:
    assert node.items is not None
    assert kind.element is not None
    element = field_converter(node.items, kind.element, f"{path}[]")

    def convert(value: object) -> object:
        if type(value) is not list:
            raise mismatch(value, "ARRAY")
        return [named(f"[{i}]", element, v) for i, v in enumerate(value)]

    return convert


def _map(node: JsonNode, kind: SqlType, path: str) -> Converter:
    assert node.items is not None
    assert kind.element is not None
    element = field_converter(node.items, kind.element, f"{path}->MAP_VAL")
    if node.key is not None:
        return _entries(field_converter(node.key, STRING, f"{path}->MAP_KEY"), element)
    text = converter(STRING)

    def convert(value: object) -> object:
        if type(value) is not dict:
            raise mismatch(value, "MAP")
        return [(text(k), named(k, element, v)) for k, v in value.items()]

    return convert


def _entries(key: Converter, element: Converter) -> Converter:
    def convert(value: object) -> object:
        if type(value) is not list:
            raise mismatch(value, "MAP, an array of entries with key and value,")
        found: dict[object, object] = {}
        for i, entry in enumerate(value):
            if type(entry) is not dict or entry.keys() != {"key", "value"}:
                raise Undecodable(f"[{i}]: no entry of a MAP, an object of a key and a value alone")
            name = named("key", key, entry["key"])
            if name is None:
                raise Undecodable(f"[{i}]: a MAP's key is null")
            found[name] = named(str(name), element, entry["value"])
        return list(found.items())

    return convert


def _struct(
    node: JsonNode, columns: Sequence[Column], path: str
) -> Callable[[object], dict[str, object]]:
    found = fields_by_column(node.fields, columns)
    present = [c.name for c in columns if c.name in found]
    absent: dict[str, object] = {c.name: None for c in columns if c.name not in found}
    pairs, defaults = [], {}
    for column in columns:
        field = found.get(column.name)
        if field is not None:
            convert = field_converter(field.type, column.type, f"{path}{column.name}")
            pairs.append((field.name, convert))
            default = bare(field.type).default
            if default is not None:
                defaults[field.name] = named(f"default of {field.name}", convert, default)
    fields = Fields(pairs, defaults)
    return lambda value: dict(zip(present, fields(value), strict=True)) | absent


def _union(node: JsonNode, kind: SqlType, path: str) -> Converter:
    """The converter to a STRUCT with a field for each branch, or to a type that a branch can be."""
    if kind.base is Base.STRUCT and fields_by_column(node.fields, kind.fields):
        return _union_struct(node, kind.fields, f"{path}->")
    converters: list[Converter | str] = []
    for each in node.fields:
        try:
            converters.append(field_converter(each.type, kind, path))
        except Undecodable as error:
            converters.append(str(error))
    if all(isinstance(c, str) for c in converters):
        raise Undecodable(f"its {node.label} cannot be read as {path} {kind}")

    def convert(value: object) -> object:
        chosen = converters[_branch(node.fields, value)]
        if isinstance(chosen, str):
            raise Undecodable(chosen)
        return chosen(value)

    return convert


def _union_struct(
    node: JsonNode, columns: Sequence[Column], path: str
) -> Callable[[object], dict[str, object]]:
    found = fields_by_column(node.fields, columns)
    names = {id(found[c.name]): c for c in columns if c.name in found}
    steps: list[tuple[str, Converter] | None] = []
    for each in node.fields:
        column = names.get(id(each))
        steps.append(
            None
            if column is None
            else (column.name, field_converter(each.type, column.type, f"{path}{column.name}"))
        )
    empty: dict[str, object] = {c.name: None for c in columns}

    def convert(value: object) -> dict[str, object]:
        step = steps[_branch(node.fields, value)]
        return empty if step is None else empty | {step[0]: named(step[0], step[1], value)}

    return convert


_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int32": (int,),
    "int64": (int,),
    "date": (int,),
    "time": (int,),
    "timestamp": (int,),
    "float64": (int, float, Decimal),
    "string": (str,),
    "bytes": (str,),
    "decimal": (int, float, Decimal, str),
    "array": (list,),
    "map": (dict, list),
}


def _branch(fields: Sequence[JsonField], value: object) -> int:
    """The branch that a value is of, as Connect chooses it: by its type alone.

    Of several objects it is the one with the most fields that the value has.
    """
    best, most = -1, -1
    for i, each in enumerate(fields):
        node = bare(each.type)
        if type(value) in _TYPES.get(node.kind, ()):
            return i
        if node.kind == "struct" and type(value) is dict:
            common = len({f.name for f in node.fields} & set(value))
            best, most = (i, common) if common > most else (best, most)
    if best < 0:
        kinds = ", ".join(bare(f.type).label for f in fields)
        raise mismatch(value, f"one of [{kinds}]")
    return best
