"""The columns that ksqlDB sees in a message, and the message that it makes of columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from holdfast.tasks.registered.proto.files import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    WRAPPERS,
    ProtoError,
    ProtoField,
    ProtoFile,
    ProtoMessage,
)
from holdfast.tasks.registered.proto.parse import known_files
from holdfast.tasks.registered.shared import MAP_KEYS
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
from holdfast.types.statements.sources import Nullable

__all__ = ["columns_of", "file_of", "oneof_field", "own_name", "proto_text"]

_MakeField: TypeAlias = Callable[[str], ProtoField]
"""A field within the message of a name."""

_TYPES = {
    "bool": BOOLEAN, "string": STRING, "bytes": SqlType(Base.BYTES),
    "float": DOUBLE, "double": DOUBLE,
    "int32": INTEGER, "sint32": INTEGER, "sfixed32": INTEGER,
    "uint32": BIGINT, "fixed32": BIGINT,  # they reach beyond INTEGER
    "int64": BIGINT, "uint64": BIGINT, "sint64": BIGINT, "fixed64": BIGINT, "sfixed64": BIGINT,
    TIMESTAMP: SqlType(Base.TIMESTAMP), DATE: SqlType(Base.DATE), TIME: SqlType(Base.TIME),
}  # fmt: skip
_TYPES |= {name: _TYPES[scalar] for name, scalar in WRAPPERS.items()}
_PRECISION = 38  # the most; of a decimal without Confluent's annotation
_FIELDS_MAX = 20_000  # messages that contain each other twice a level double at each
_SCALARS = {
    Base.BOOLEAN: "bool", Base.INTEGER: "int32", Base.BIGINT: "int64", Base.DOUBLE: "double",
    Base.STRING: "string", Base.BYTES: "bytes",
    Base.DECIMAL: DECIMAL, Base.TIMESTAMP: TIMESTAMP, Base.DATE: DATE, Base.TIME: TIME,
}  # fmt: skip
_WRAPPER = {scalar: name for name, scalar in WRAPPERS.items()}
_IMPORTS = {
    DECIMAL: "confluent/type/decimal.proto",
    TIMESTAMP: "google/protobuf/timestamp.proto",
    DATE: "google/type/date.proto",
    TIME: "google/type/timeofday.proto",
} | dict.fromkeys(WRAPPERS, "google/protobuf/wrappers.proto")
_META = "confluent/meta.proto"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PREFIX = "ConnectDefault"  # as the messages that ksqlDB makes are called


def columns_of(
    file: ProtoFile, message: ProtoMessage, *, exact: bool = False
) -> tuple[Column, ...]:
    """A message's fields as columns; a oneof is a STRUCT of its members.

    What SQL has no type for is left out, for instance a message within itself; of one name the
    last field counts.

    Args:
        exact: names stay as they are written; else they are in upper case.

    Raises:
        ProtoError: messages are nested too deep, or have too many fields altogether.
    """
    return _Inference(file, exact=exact).columns(message, ())


class _Inference:
    def __init__(self, file: ProtoFile, *, exact: bool) -> None:
        self._file = file
        self._exact = exact
        self._fields = 0

    def columns(self, message: ProtoMessage, outer: tuple[str, ...]) -> tuple[Column, ...]:
        if len(outer) >= NESTED_MAX:
            raise ProtoError(f"messages are nested more than {NESTED_MAX} deep")
        outer = (*outer, message.name)
        members: dict[str, dict[str, SqlType]] = {name: {} for name in message.oneofs}
        plain: dict[str, SqlType] = {}
        for field in message.fields:
            kind = self._type(field, outer)
            if kind is not None:
                (members[field.oneof] if field.oneof else plain)[self._name(field.name)] = kind
        structs = {
            self._name(oneof_field(message, name)): _struct(each)
            for name, each in members.items()
            if each
        }
        return tuple(Column(name, kind) for name, kind in (structs | plain).items())

    def _name(self, name: str) -> str:
        return name if self._exact else name.upper()

    def _type(self, field: ProtoField, outer: tuple[str, ...]) -> SqlType | None:
        self._fields += 1
        if self._fields > _FIELDS_MAX:
            raise ProtoError(f"its messages have more than {_FIELDS_MAX} fields altogether")
        if field.entries:
            return self._map(*self._file.entry(field), (*outer, field.type))
        found = self._single(field, outer)
        if found is None or not field.repeated:
            return found
        return SqlType(Base.ARRAY, element=found)

    def _map(self, key: ProtoField, value: ProtoField, outer: tuple[str, ...]) -> SqlType | None:
        """ksqlDB reads keys of all types as text."""
        keys, items = self._single(key, outer), self._single(value, outer)
        if keys is None or keys.base not in MAP_KEYS or items is None:
            return None
        return SqlType(Base.MAP, element=items)

    def _single(self, field: ProtoField, outer: tuple[str, ...]) -> SqlType | None:
        if field.type in _TYPES:
            return _TYPES[field.type]
        if field.type in self._file.enums:
            return STRING
        if field.type == DECIMAL:
            precision = field.precision or _PRECISION
            fits = field.scale <= precision <= _PRECISION
            return SqlType(Base.DECIMAL, precision, field.scale) if fits else None
        if field.type in outer:
            return None
        columns = self.columns(self._file.messages[field.type], outer)
        return SqlType(Base.STRUCT, fields=columns) if columns else None


def _struct(fields: Mapping[str, SqlType]) -> SqlType:
    return SqlType(Base.STRUCT, fields=tuple(Column(n, kind) for n, kind in fields.items()))


def oneof_field(message: ProtoMessage, oneof: str) -> str:
    """The name that Connect gives a oneof."""
    return f"{oneof}_{message.oneofs.index(oneof)}"


def file_of(
    columns: Sequence[Column], nullable: Nullable = Nullable.NONE, full_name: str = ""
) -> ProtoFile:
    """The file with the message that ksqlDB makes of columns: numbers in the columns' order.

    Args:
        full_name: of the message, with its package; empty, or as ksqlDB's own begin: its own.

    Raises:
        ProtoError: a column's name or type has no place in Protobuf.
    """
    return _Maker(nullable).file(columns, "" if own_name(full_name) else full_name)


def own_name(full_name: str) -> bool:
    """Whether ksqlDB takes a name for one that it makes itself, and ignores it."""
    return not full_name or full_name.startswith(_PREFIX)


class _Maker:
    """Makes messages, which are numbered through the file as Connect does."""

    def __init__(self, nullable: Nullable) -> None:
        self._nullable = nullable
        self._messages: dict[str, ProtoMessage] = {}
        self._made = 0

    def file(self, columns: Sequence[Column], full_name: str) -> ProtoFile:
        if not all(_NAME.fullmatch(part) for part in full_name.split(".") if full_name):
            raise ProtoError(f"`{full_name}` cannot be the name of a Protobuf message")
        package, _, simple = full_name.rpartition(".")
        top = self._message(package, simple or self._next(), self._fields(columns))
        return ProtoFile(package, (top,), self._messages).with_imports(known_files())

    def _next(self) -> str:
        self._made += 1
        return f"{_PREFIX}{self._made}"

    def _message(self, scope: str, simple: str, makers: Sequence[_MakeField]) -> str:
        name = f"{scope}.{simple}" if scope else simple
        fields = tuple(make(name) for make in makers)
        nested = tuple(dict.fromkeys(f.type for f in fields if f.type.rpartition(".")[0] == name))
        self._messages[name] = ProtoMessage(name, fields, nested=nested)
        return name

    def _fields(self, columns: Sequence[Column]) -> Sequence[_MakeField]:
        return [partial(self._field, n, c.name, c.type) for n, c in enumerate(columns, 1)]

    def _field(self, number: int, name: str, kind: SqlType, scope: str) -> ProtoField:
        if not _NAME.fullmatch(name):
            raise ProtoError(f"`{name}` cannot be the name of a Protobuf field")
        if kind.base is Base.MAP:
            if kind.map_key.base is not Base.STRING:
                raise ProtoError(
                    f"PROTOBUF format only supports MAP types with STRING keys, got {kind}: "
                    f"`{name}`"
                )
            return self._map(number, name, kind.element or STRING, scope)
        element = kind.element if kind.base is Base.ARRAY else kind
        if element is None or element.base in (Base.ARRAY, Base.MAP):
            raise ProtoError(f"Protobuf has no {kind}: `{name}`")
        made = self._single(number, name, element, scope)
        if kind.base is Base.ARRAY:
            return replace(made, repeated=True)
        return replace(made, optional=self._nullable is Nullable.OPTIONAL)

    def _map(self, number: int, name: str, element: SqlType, scope: str) -> ProtoField:
        """A list of entries, not `map<…>`: so Connect has it, and registries compare it."""
        if element.base in (Base.ARRAY, Base.MAP):
            raise ProtoError(f"Protobuf has no {SqlType(Base.MAP, element=element)}: `{name}`")
        entries = self._message(
            scope,
            f"{self._next()}Entry",
            [partial(self._single, 1, "key", STRING), partial(self._single, 2, "value", element)],
        )
        return ProtoField(name, number, entries, repeated=True, entries=True)

    def _single(self, number: int, name: str, kind: SqlType, scope: str) -> ProtoField:
        if kind.base is Base.STRUCT:
            simple = self._next()
            if simple == name:
                simple += "Message"
            return ProtoField(name, number, self._message(scope, simple, self._fields(kind.fields)))
        scalar = _SCALARS[kind.base]
        if self._nullable is Nullable.WRAPPER:
            scalar = _WRAPPER.get(scalar, scalar)
        return ProtoField(name, number, scalar, precision=kind.precision, scale=kind.scale)


def proto_text(file: ProtoFile, *, for_protoc: bool = False) -> str:
    """The text of a file of `file_of`, as ksqlDB registers it: another one would be a new version.

    Args:
        for_protoc: with an import that ksqlDB leaves out and protoc needs.
    """
    types = set(_types(file, file.top))
    imports = sorted({_IMPORTS[t] for t in types if t in _IMPORTS})
    if for_protoc and DECIMAL in types:
        imports = [_META, *imports]
    lines = ['syntax = "proto3";', *([f"package {file.package};"] if file.package else []), ""]
    lines += [f'import "{name}";' for name in imports]
    lines += [""] if imports else []
    for name in file.top:
        lines += _message_lines(file, file.messages[name], "")
    return "\n".join(lines) + "\n"


def _types(file: ProtoFile, names: Iterable[str]) -> Iterator[str]:
    for message in (file.messages[name] for name in names):
        yield from (f.type for f in message.fields)
        yield from _types(file, message.nested)


def _message_lines(file: ProtoFile, message: ProtoMessage, indent: str) -> list[str]:
    lines = [f"{indent}message {message.simple_name} {{"]
    lines += [f"{indent}  {each}" for f in message.fields for each in _field_lines(f, message)]
    lines += [indent] if message.nested else []
    for name in message.nested:
        lines += _message_lines(file, file.messages[name], f"{indent}  ")
    return [*lines, f"{indent}}}"]


def _field_lines(field: ProtoField, within: ProtoMessage) -> Sequence[str]:
    scope, _, simple = field.type.rpartition(".")
    kind = simple if scope == within.name else field.type
    label = "repeated " if field.repeated else "optional " if field.optional else ""
    text = f"{label}{kind} {field.name} = {field.number}"
    if field.type != DECIMAL:
        return (f"{text};",)
    pairs = (("precision", field.precision), ("scale", field.scale))
    params = [
        line
        for key, value in pairs
        for line in (
            "    {", f'      value: "{value}",', f'      key: "{key}"',
            "    }" if key == "scale" else "    },",
        )
    ]  # fmt: skip
    return (f"{text} [(confluent.field_meta) = {{", "  params: [", *params, "  ]", "}];")
