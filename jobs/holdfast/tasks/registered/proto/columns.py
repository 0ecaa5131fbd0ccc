"""The columns that ksqlDB sees in a message, and the message that it makes of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
from holdfast.types.schema import (
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
from holdfast.types.sources import Nullable

__all__ = ["columns_of", "file_of", "oneof_column", "proto_text"]

_TYPES = {
    "bool": BOOLEAN, "string": STRING, "bytes": SqlType(Base.BYTES),
    "float": DOUBLE, "double": DOUBLE,
    "int32": INTEGER, "sint32": INTEGER, "sfixed32": INTEGER,
    "uint32": BIGINT, "fixed32": BIGINT,  # they reach beyond INTEGER
    "int64": BIGINT, "uint64": BIGINT, "sint64": BIGINT, "fixed64": BIGINT, "sfixed64": BIGINT,
    TIMESTAMP: SqlType(Base.TIMESTAMP), DATE: SqlType(Base.DATE), TIME: SqlType(Base.TIME),
}  # fmt: skip
_TYPES |= {name: _TYPES[scalar] for name, scalar in WRAPPERS.items()}
_PRECISION, _SCALE = 38, 0  # of a decimal without Confluent's annotation
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


def columns_of(file: ProtoFile, message: ProtoMessage) -> tuple[Column, ...]:
    """A message's fields as columns, names in upper case; a oneof is a STRUCT of its members.

    Raises:
        ProtoError: a message contains itself, or is nested too deep.
    """
    return _columns(file, message, ())


def _columns(file: ProtoFile, message: ProtoMessage, outer: tuple[str, ...]) -> tuple[Column, ...]:
    if message.name in outer:
        raise ProtoError(f"message {message.name} contains itself: SQL has no such type")
    if len(outer) >= NESTED_MAX:
        raise ProtoError(f"messages are nested more than {NESTED_MAX} deep")
    outer = (*outer, message.name)
    members: dict[str, list[Column]] = {name: [] for name in message.oneofs}
    plain: list[Column] = []
    for field in message.fields:
        column = Column(field.name.upper(), _type(file, field, outer))
        (members[field.oneof] if field.oneof else plain).append(column)
    structs = [
        Column(oneof_column(message, name), SqlType(Base.STRUCT, fields=tuple(each)))
        for name, each in members.items()
    ]
    return (*structs, *plain)


def oneof_column(message: ProtoMessage, oneof: str) -> str:
    """The name of a oneof's column."""
    return f"{oneof}_{message.oneofs.index(oneof)}".upper()


def _type(file: ProtoFile, field: ProtoField, outer: tuple[str, ...]) -> SqlType:
    found = _single(file, field, outer)
    if field.map_key:
        return SqlType(Base.MAP, element=found, key=_TYPES[field.map_key])
    return SqlType(Base.ARRAY, element=found) if field.repeated else found


def _single(file: ProtoFile, field: ProtoField, outer: tuple[str, ...]) -> SqlType:
    if field.type in _TYPES:
        return _TYPES[field.type]
    if field.type in file.enums:
        return STRING
    if field.type == DECIMAL:
        annotated = field.precision > 0
        return SqlType(
            Base.DECIMAL,
            precision=field.precision or _PRECISION,
            scale=field.scale if annotated else _SCALE,
        )
    return SqlType(Base.STRUCT, fields=_columns(file, file.messages[field.type], outer))


def file_of(columns: Sequence[Column], nullable: Nullable = Nullable.NONE) -> ProtoFile:
    """The file with the message that ksqlDB makes of columns: numbers in the columns' order.

    Raises:
        ProtoError: a column's name or type has no place in Protobuf.
    """
    return _Maker(nullable).file(columns)


class _Maker:
    """Makes messages, which are numbered through the file as ksqlDB's are."""

    def __init__(self, nullable: Nullable) -> None:
        self._nullable = nullable
        self._messages: dict[str, ProtoMessage] = {}
        self._made = 0

    def file(self, columns: Sequence[Column]) -> ProtoFile:
        name = self._message("", columns)
        return ProtoFile("", (name,), self._messages).with_imports(known_files())

    def _message(self, scope: str, columns: Sequence[Column]) -> str:
        self._made += 1
        simple = f"{_PREFIX}{self._made}"
        name = f"{scope}.{simple}" if scope else simple
        before = set(self._messages)
        fields = tuple(self._field(name, n, c) for n, c in enumerate(columns, 1))
        within = [m for m in self._messages if m not in before and m.rpartition(".")[0] == name]
        self._messages[name] = ProtoMessage(name, fields, nested=tuple(within))
        return name

    def _field(self, scope: str, number: int, column: Column) -> ProtoField:
        if not _NAME.fullmatch(column.name):
            raise ProtoError(f"`{column.name}` cannot be the name of a Protobuf field")
        kind = column.type
        key, repeated = "", False
        if kind.base is Base.MAP:
            if kind.map_key.base is not Base.STRING:
                raise ProtoError(
                    f"PROTOBUF format only supports MAP types with STRING keys, got {kind}: "
                    f"`{column.name}`"
                )
            key, kind = "string", kind.element or STRING
        elif kind.base is Base.ARRAY:
            repeated, kind = True, kind.element or STRING
        if kind.base in (Base.ARRAY, Base.MAP):
            raise ProtoError(f"Protobuf has no {column.type}: `{column.name}`")
        return self._of(scope, number, column.name, kind, key=key, repeated=repeated)

    def _of(
        self, scope: str, number: int, name: str, kind: SqlType, *, key: str, repeated: bool
    ) -> ProtoField:
        if kind.base is Base.STRUCT:
            made = self._message(scope, kind.fields)
            return ProtoField(name, number, made, repeated=repeated, map_key=key)
        scalar = _SCALARS[kind.base]
        single = not key and not repeated and scalar in _WRAPPER
        if single and self._nullable is Nullable.WRAPPER:
            scalar = _WRAPPER[scalar]
        optional = single and self._nullable is Nullable.OPTIONAL
        return ProtoField(
            name,
            number,
            scalar,
            repeated=repeated,
            optional=optional,
            map_key=key,
            precision=kind.precision,
            scale=kind.scale,
        )


def proto_text(file: ProtoFile) -> str:
    """The text of a file of `file_of`, as ksqlDB registers it."""
    own = (m for name, m in file.messages.items() if name.startswith(_PREFIX))
    types = {f.type for m in own for f in m.fields}
    imports = sorted({_IMPORTS[t] for t in types if t in _IMPORTS})
    if DECIMAL in types:
        imports = [_META, *imports]
    lines = ['syntax = "proto3";', ""]
    lines += [f'import "{name}";' for name in imports]
    lines += [""] if imports else []
    for name in file.top:
        lines += _message_lines(file, file.messages[name], "")
    return "\n".join(lines) + "\n"


def _message_lines(file: ProtoFile, message: ProtoMessage, indent: str) -> list[str]:
    lines = [f"{indent}message {message.simple_name} {{"]
    lines += [f"{indent}  {_field_text(f)}" for f in message.fields]
    for name in message.nested:
        lines += ["", *_message_lines(file, file.messages[name], f"{indent}  ")]
    return [*lines, f"{indent}}}"]


def _field_text(field: ProtoField) -> str:
    simple = field.type.rpartition(".")[2]
    kind = simple if simple.startswith(_PREFIX) else field.type
    if field.map_key:
        kind = f"map<{field.map_key}, {kind}>"
    label = "repeated " if field.repeated else "optional " if field.optional else ""
    meta = ""
    if field.type == DECIMAL:
        pairs = (("precision", field.precision), ("scale", field.scale))
        params = ", ".join(f'{{key: "{k}", value: "{v}"}}' for k, v in pairs)
        meta = f" [(confluent.field_meta) = {{params: [{params}]}}]"
    return f"{label}{kind} {field.name} = {field.number}{meta};"
