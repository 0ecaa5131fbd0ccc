"""Avro: columns from schemas and back, by ksqlDB's and Connect's conventions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from holdfast.errors import SchemaRefused
from holdfast.tasks.registered.avro_encode import AvroEncoder
from holdfast.tasks.registered.avro_schema import NAME, AvroNode, map_parts, optional, parse_avro
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
    STRING,
    Base,
    Column,
    SqlType,
)
from holdfast.types.columns.schemas import DataSchema, Schema, SchemaKind
from holdfast.types.statements.sources import Format, Nullable

__all__ = ["Avro"]

_FULL_NAME = "io.confluent.ksql.avro_schemas.KsqlDataSourceSchema"
_Names: TypeAlias = Callable[[str], str]
"""Names of fields -> names of columns."""
_PRIMITIVES = {
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": BIGINT,
    "float": DOUBLE,
    "double": DOUBLE,
    "string": STRING,
    "enum": STRING,
    "bytes": SqlType(Base.BYTES),
    "fixed": SqlType(Base.BYTES),
}
_LOGICAL = {
    "date": SqlType(Base.DATE),
    "time-millis": SqlType(Base.TIME),
    "timestamp-millis": SqlType(Base.TIMESTAMP),
}


class Avro:
    """See `Language`."""

    unwraps = True
    inherits_name = False

    def columns_of(
        self, schema: Schema, full_name: str, *, unwrapped: bool, key: bool, exact: bool = False
    ) -> tuple[Column, ...]:
        root, name_of = parse_avro(schema), as_written if exact else str.upper
        if unwrapped:
            columns = alone(_sql_type(root, (), name_of), key=key)
        elif root.kind != "record":
            raise anonymous(f"of type {root.label}", "a record with a field")
        else:
            columns = _columns(root, (), name_of)
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
        name = full_name or _FULL_NAME
        _check(columns)
        written = _written(columns[0].type, name) if unwrapped else _record(columns, name, name)
        return Schema(SchemaKind.AVRO, json.dumps(written, separators=(",", ":")))

    def encode(
        self, columns: Sequence[Column], arrays: Sequence[pa.Array], data: DataSchema | None,
        *, unwrapped: bool,
    ) -> Sequence[bytes | None]:  # fmt: skip
        written = id_of(data, Format.AVRO)
        return _encoder(written, tuple(columns), unwrapped=unwrapped).encode(arrays)


@lru_cache(ENCODERS_MAX)
def _encoder(data: DataSchema, columns: tuple[Column, ...], *, unwrapped: bool) -> AvroEncoder:
    return AvroEncoder(data, columns, unwrapped=unwrapped)


def _columns(record: AvroNode, within: tuple[AvroNode, ...], name_of: _Names) -> tuple[Column, ...]:
    """A field of a type without a SQL type is left out, the last of one name counts."""
    found: dict[str, SqlType] = {}
    for each in record.fields:
        kind = _sql_type(each.type, (*within, record), name_of)
        if kind is not None:
            found[name_of(each.name)] = kind
    return tuple(Column(name, kind) for name, kind in found.items())


def _sql_type(node: AvroNode, within: tuple[AvroNode, ...], name_of: _Names) -> SqlType | None:
    """The SQL type; None: there is none, for instance for a record within itself."""
    if node in within:
        return None
    if node.logical == "decimal":
        fits = 0 < node.precision <= 38
        return SqlType(Base.DECIMAL, node.precision, node.scale) if fits else None
    if node.logical in _LOGICAL:
        return _LOGICAL[node.logical]
    if node.kind in _PRIMITIVES:
        return _PRIMITIVES[node.kind]
    if node.kind == "union":
        return _of_union(node, within, name_of)
    return _nested(node, within, name_of)


def _nested(node: AvroNode, within: tuple[AvroNode, ...], name_of: _Names) -> SqlType | None:
    parts = map_parts(node)
    if parts is not None:
        key, value = _sql_type(parts[0], within, name_of), _sql_type(parts[1], within, name_of)
        if key is None or value is None or key.base not in MAP_KEYS:
            return None
        # As in ksqlDB, which reads keys of all types as text.
        return SqlType(Base.MAP, element=value)
    if node.items is not None:
        element = _sql_type(node.items, within, name_of)
        base = Base.MAP if node.kind == "map" else Base.ARRAY
        return None if element is None else SqlType(base, element=element)
    fields = _columns(node, within, name_of) if node.kind == "record" else ()
    return SqlType(Base.STRUCT, fields=fields) if fields else None


def _of_union(node: AvroNode, within: tuple[AvroNode, ...], name_of: _Names) -> SqlType | None:
    """The type beside null; of more types, a STRUCT with a field for each, as Connect has it."""
    only = optional(node)
    if only is not None:
        return _sql_type(only, within, name_of)
    branches = [b for b in node.branches if b.kind != "null"]
    if len(branches) == 1:
        return _sql_type(branches[0], within, name_of)
    fields = []
    for branch in branches:
        kind = _sql_type(branch, within, name_of)
        if kind is not None:
            fields.append(Column(name_of(branch_name(branch)), kind))
    return SqlType(Base.STRUCT, fields=tuple(fields)) if fields else None


def branch_name(branch: AvroNode) -> str:
    """The field that Connect makes of a branch of a union."""
    return branch.name.rpartition(".")[2] or branch.kind


def _check(columns: Sequence[Column]) -> None:
    """Raises `SchemaRefused`: Avro has no such name, or ksqlDB no such map."""
    for column in columns:
        name = column.name.replace(".", "_")
        if not NAME.fullmatch(name):
            what = "initial character" if not NAME.fullmatch(name[:1]) else "character in"
            raise SchemaRefused(
                f"Schema is not compatible with Avro: Illegal {what}: {name}",
                action="name the column by letters, digits and _, a digit not first",
            )
        _check_type(column.type)


def _check_type(kind: SqlType) -> None:
    if kind.base is Base.MAP and kind.map_key.base is not Base.STRING:
        raise SchemaRefused(
            "Avro only supports MAPs with STRING keys",
            cause=f"ksqlDB writes no {kind}",
            action="use a map with STRING keys",
        )
    if kind.element is not None:
        _check_type(kind.element)
    _check(kind.fields)


def _record(columns: Sequence[Column], full_name: str, path: str) -> dict[str, Any]:
    space, _, name = full_name.rpartition(".")
    fields = [
        {"name": c.name.replace(".", "_"), "type": _or_null(c.type, f"{path}_{c.name}"),
         "default": None}
        for c in columns
    ]  # fmt: skip
    named = {"type": "record", "name": name} | ({"namespace": space} if space else {})
    return {**named, "fields": fields}


def _or_null(kind: SqlType, path: str) -> list[Any]:
    return ["null", _written(kind, path)]


def _written(kind: SqlType, path: str) -> Any:
    """The type as ksqlDB's converter writes it; `path` is the name of records within."""
    if kind.base is Base.ARRAY and kind.element is not None:
        return {"type": "array", "items": _or_null(kind.element, path)}
    if kind.base is Base.MAP and kind.element is not None:
        key, value = kind.map_key, kind.element
        entry = {
            "type": "record",
            "name": path.rpartition(".")[2],
            **({"namespace": path.rpartition(".")[0]} if "." in path else {}),
            "fields": [
                {"name": "key", "type": _or_null(key, f"{path}_MapKey"), "default": None},
                {"name": "value", "type": _or_null(value, f"{path}_MapValue"), "default": None},
            ],
            "connect.internal.type": "MapEntry",
        }
        return {"type": "array", "items": entry}
    if kind.base is Base.STRUCT:
        return _record(kind.fields, path, path)
    if kind.base is Base.DECIMAL:
        return _DECIMAL | {
            "scale": kind.scale,
            "precision": kind.precision,
            "connect.parameters": {
                "scale": str(kind.scale),
                "connect.decimal.precision": str(kind.precision),
            },
        }
    return _WRITTEN[kind.base]


_DECIMAL = {
    "type": "bytes",
    "logicalType": "decimal",
    "connect.version": 1,
    "connect.name": "org.apache.kafka.connect.data.Decimal",
}


def _connect(kind: str, name: str, logical: str) -> dict[str, Any]:
    return {
        "type": kind,
        "connect.version": 1,
        "connect.name": f"org.apache.kafka.connect.data.{name}",
        "logicalType": logical,
    }


_WRITTEN: dict[Base, Any] = {
    Base.BOOLEAN: "boolean",
    Base.INTEGER: "int",
    Base.BIGINT: "long",
    Base.DOUBLE: "double",
    Base.STRING: "string",
    Base.BYTES: "bytes",
    Base.DATE: _connect("int", "Date", "date"),
    Base.TIME: _connect("int", "Time", "time-millis"),
    Base.TIMESTAMP: _connect("long", "Timestamp", "timestamp-millis"),
}
