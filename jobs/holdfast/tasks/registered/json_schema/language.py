"""JSON Schema: columns from schemas and back, by ksqlDB's and Connect's conventions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from holdfast.errors import SchemaRefused
from holdfast.tasks.registered.json_schema.encode import JsonEncoder
from holdfast.tasks.registered.json_schema.nodes import JsonField, JsonNode, bare
from holdfast.tasks.registered.json_schema.parse import parse_json_schema
from holdfast.tasks.registered.shared import (
    ENCODERS_MAX,
    MAP_KEYS,
    alone,
    anonymous,
    as_written,
    id_of,
    without_columns,
)
from holdfast.types.columns.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NESTED_MAX,
    STRING,
    Base,
    Column,
    SqlType,
)
from holdfast.types.columns.schemas import DataSchema, Schema, SchemaKind
from holdfast.types.statements.sources import Format, Nullable

__all__ = ["JsonSchema"]

_DIGITS_MAX = 38
_TYPES_MAX = 10_000
_SQL = {
    "boolean": BOOLEAN,
    "int32": INTEGER,
    "int64": BIGINT,
    "float64": DOUBLE,
    "string": STRING,
    "bytes": SqlType(Base.BYTES),
    "date": SqlType(Base.DATE),
    "time": SqlType(Base.TIME),
    "timestamp": SqlType(Base.TIMESTAMP),
}


class JsonSchema:
    """See `Language`.  Schemas have no name: `full_name` is not used, as in ksqlDB."""

    unwraps = True
    inherits_name = False

    def columns_of(
        self, schema: Schema, full_name: str, *, unwrapped: bool, key: bool, exact: bool = False
    ) -> tuple[Column, ...]:
        root = bare(parse_json_schema(schema))
        translator = _Translator(as_written if exact else str.upper)
        if unwrapped:
            columns = alone(translator.sql_type(root, (), "its root"), key=key)
        elif root.kind in ("struct", "union"):
            columns = translator.columns(root.fields, (root,), "")
        else:
            raise anonymous(root.label, "an object with a property")
        if not columns:
            raise without_columns(root.label)
        return columns

    def full_names(self, schema: Schema) -> Sequence[str]:
        return ()

    def name_in(self, schema: Schema, data: bytes) -> str:
        return ""

    def schema_of(
        self, columns: Sequence[Column], full_name: str, *, unwrapped: bool,
        nullable: Nullable = Nullable.NONE,
    ) -> Schema:  # fmt: skip
        written = _optional(columns[0].type, None) if unwrapped else _object(columns)
        return Schema(SchemaKind.JSON, json.dumps(written, separators=(",", ":")))

    def encode(
        self, columns: Sequence[Column], arrays: Sequence[pa.Array], data: DataSchema | None,
        *, unwrapped: bool,
    ) -> Sequence[bytes | None]:  # fmt: skip
        written = id_of(data, Format.JSON_SR)
        return _encoder(written, tuple(columns), unwrapped=unwrapped).encode(arrays)


@lru_cache(ENCODERS_MAX)
def _encoder(data: DataSchema, columns: tuple[Column, ...], *, unwrapped: bool) -> JsonEncoder:
    return JsonEncoder(data, columns, unwrapped=unwrapped)


class _Translator:
    """Translates one schema's nodes to SQL types."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        """`name_of`: the name of a field's column."""
        self._name_of = name_of
        self._made = 0

    def columns(
        self, fields: Iterable[JsonField], within: tuple[JsonNode, ...], path: str
    ) -> tuple[Column, ...]:
        """A field of a type without a SQL type is left out, the last of one name counts."""
        found: dict[str, SqlType] = {}
        for each in fields:
            kind = self.sql_type(each.type, within, f"{path}{each.name}")
            if kind is not None:
                found[self._name_of(each.name)] = kind
        return tuple(Column(name, kind) for name, kind in found.items())

    def sql_type(
        self, written: JsonNode, within: tuple[JsonNode, ...], path: str
    ) -> SqlType | None:
        """The SQL type; None: there is none, for instance for an object within itself.

        Raises:
            SchemaRefused: Connect cannot translate the schema at all, or it has too many parts.
        """
        node = bare(written)
        if node in within:
            return None
        self._check(node, len(within), path)
        if node.kind == "decimal":
            fits = 0 <= node.scale <= node.precision and 0 < node.precision <= _DIGITS_MAX
            return SqlType(Base.DECIMAL, node.precision, node.scale) if fits else None
        if node.kind in _SQL:
            return _SQL[node.kind]
        inner = (*within, node)
        if node.kind == "map":
            return self._map(node, inner, path)
        if node.kind == "array" and node.items is not None:
            element = self.sql_type(node.items, inner, f"{path}[]")
            return None if element is None else SqlType(Base.ARRAY, element=element)
        fields = self.columns(node.fields, inner, f"{path}.")
        return SqlType(Base.STRUCT, fields=fields) if fields else None

    def _map(self, node: JsonNode, within: tuple[JsonNode, ...], path: str) -> SqlType | None:
        assert node.items is not None
        key = STRING if node.key is None else self.sql_type(node.key, within, f"{path}.key")
        value = self.sql_type(node.items, within, f"{path}.value")
        if key is None or value is None or key.base not in MAP_KEYS:
            return None
        # As in ksqlDB, which reads keys of all types as text.
        return SqlType(Base.MAP, element=value)

    def _check(self, node: JsonNode, level: int, path: str) -> None:
        self._made += 1
        if node.kind == "unsupported":
            raise SchemaRefused(
                f"The JSON schema cannot be translated: {path} is {node.why}.",
                action='give it a "type", or list the columns: (name TYPE, ...)',
            )
        if level > NESTED_MAX or self._made > _TYPES_MAX:
            raise SchemaRefused(
                f"The JSON schema has types nested more than {NESTED_MAX} deep, or more than "
                f"{_TYPES_MAX} of them, references counted each time: {path[:200]}.",
                action="list the columns: (name TYPE, ...)",
            )


def _object(columns: Sequence[Column]) -> dict[str, Any]:
    # ksqlDB's converter keeps properties in a Java HashMap; the same text has the same version.
    at = {c.name: i for i, c in enumerate(columns)}
    types = {c.name: c.type for c in columns}
    properties = {name: _optional(types[name], at[name]) for name in _java_order(list(at))}
    return {"type": "object", "properties": properties}


def _java_order(names: Sequence[str]) -> list[str]:
    """The names in the order of a Java HashMap: by the low bits of their hashes."""
    size = 16
    while len(names) > size * 3 // 4:
        size *= 2
    return sorted(names, key=lambda name: _java_hash(name) & (size - 1))


def _java_hash(text: str) -> int:
    found = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        found = (found * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return found ^ (found >> 16)


def _optional(kind: SqlType, index: int | None) -> dict[str, Any]:
    either = {"oneOf": [{"type": "null"}, _written(kind)]}
    return either if index is None else {"connect.index": index, **either}


def _written(kind: SqlType) -> dict[str, Any]:
    """The type as ksqlDB's converter writes it, without null."""
    if kind.base is Base.ARRAY and kind.element is not None:
        return {"type": "array", "items": _optional(kind.element, None)}
    if kind.base is Base.MAP and kind.element is not None:
        entry = _object((Column("key", kind.map_key), Column("value", kind.element)))
        return {"type": "array", "connect.type": "map", "items": entry}
    if kind.base is Base.STRUCT:
        return _object(kind.fields)
    if kind.base is Base.DECIMAL:
        return _connect("number", "bytes", "Decimal") | {
            "connect.parameters": {
                "scale": str(kind.scale),
                "connect.decimal.precision": str(kind.precision),
            }
        }
    return _WRITTEN[kind.base]


def _connect(kind: str, connect: str, name: str) -> dict[str, Any]:
    return {
        "type": kind,
        "title": f"org.apache.kafka.connect.data.{name}",
        "connect.version": 1,
        "connect.type": connect,
    }


_WRITTEN: dict[Base, dict[str, Any]] = {
    Base.BOOLEAN: {"type": "boolean"},
    Base.INTEGER: {"type": "integer", "connect.type": "int32"},
    Base.BIGINT: {"type": "integer", "connect.type": "int64"},
    Base.DOUBLE: {"type": "number", "connect.type": "float64"},
    Base.STRING: {"type": "string"},
    Base.BYTES: {"type": "string", "connect.type": "bytes"},
    Base.DATE: _connect("integer", "int32", "Date"),
    Base.TIME: _connect("integer", "int32", "Time"),
    Base.TIMESTAMP: _connect("integer", "int64", "Timestamp"),
}
