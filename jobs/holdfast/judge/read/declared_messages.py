"""Protobuf's schema for messages without a registry: the judge's own words for declared columns.

Fields have the columns' numbers and ksqlDB's types.  Types are called by their full names, which no
column hides; columns such as `A_B` and `AB`, which JSON names of Protobuf do not tell apart, are
allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from holdfast.judge.values import Untranslatable
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.columns.schemas import Schema, SchemaKind
from holdfast.types.statements.sources import Nullable

__all__ = ["declared_schema"]

_PACKAGE = "holdfast_judge"
_IMPORTS = (
    "confluent/type/decimal.proto", "google/protobuf/timestamp.proto",
    "google/protobuf/wrappers.proto", "google/type/date.proto", "google/type/timeofday.proto",
)  # fmt: skip
_PLAIN = {
    Base.BOOLEAN: "bool", Base.INTEGER: "int32", Base.BIGINT: "int64", Base.DOUBLE: "double",
    Base.STRING: "string", Base.BYTES: "bytes",
}  # fmt: skip
_WRAPPERS = {
    Base.BOOLEAN: "Bool", Base.INTEGER: "Int32", Base.BIGINT: "Int64", Base.DOUBLE: "Double",
    Base.STRING: "String", Base.BYTES: "Bytes",
}  # fmt: skip
_MESSAGES = {
    Base.DECIMAL: ".confluent.type.Decimal", Base.TIMESTAMP: ".google.protobuf.Timestamp",
    Base.DATE: ".google.type.Date", Base.TIME: ".google.type.TimeOfDay",
}  # fmt: skip


def declared_schema(columns: Sequence[Column], nullable: Nullable) -> Schema:
    """The schema of a key's or value's messages, which are its first message.

    Raises:
        Untranslatable: Protobuf has no such type.
    """
    lines = ['syntax = "proto3";', f"package {_PACKAGE};", *(f'import "{n}";' for n in _IMPORTS)]
    return Schema(SchemaKind.PROTOBUF, "\n".join([*lines, *_Text(nullable).message(columns)]))


class _Text:
    def __init__(self, nullable: Nullable) -> None:
        self._nullable = nullable
        self._numbers = count()

    def message(self, columns: Sequence[Column]) -> Iterator[str]:
        """A message, and after it those that it holds."""
        inner: list[str] = []
        kinds = [self._field(c.type, inner) for c in columns]
        yield from self._lines(f"M{next(self._numbers)}", [c.name for c in columns], kinds)
        yield from inner

    def _lines(self, name: str, names: Sequence[str], kinds: Sequence[str]) -> Iterator[str]:
        yield f"message {name} {{ option deprecated_legacy_json_field_conflicts = true;"
        for number, (field, kind) in enumerate(zip(names, kinds, strict=True), 1):
            yield f"  {kind} {field} = {number};"
        yield "}"

    def _field(self, kind: SqlType, inner: list[str]) -> str:
        if kind.element is None:
            optional = self._nullable is Nullable.OPTIONAL
            return f"{'optional ' if optional else ''}{self._single(kind, inner)}"
        element = self._single(kind.element, inner)
        if kind.base is Base.ARRAY:
            return f"repeated {element}"
        name = f"M{next(self._numbers)}Entry"  # as Connect has a map, whose key may be a wrapper
        inner += self._lines(name, ("key", "value"), (self._single(kind.map_key, inner), element))
        return f"repeated .{_PACKAGE}.{name}"

    def _single(self, kind: SqlType, inner: list[str]) -> str:
        if kind.base is Base.STRUCT:
            made = list(self.message(kind.fields))
            inner += made
            return f".{_PACKAGE}.{made[0].split()[1]}"
        if kind.base in _MESSAGES:
            return _MESSAGES[kind.base]
        if kind.base not in _PLAIN:
            raise Untranslatable(f"columns of type {kind} in Protobuf")
        if self._nullable is Nullable.WRAPPER:
            return f".google.protobuf.{_WRAPPERS[kind.base]}Value"
        return _PLAIN[kind.base]
