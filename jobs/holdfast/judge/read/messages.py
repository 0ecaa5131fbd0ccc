"""Protobuf's messages as plain values, by Google's own library, one record at a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.judge.read.proto_files import files_of
from holdfast.judge.values import Untranslatable
from holdfast.types.columns.schemas import Schema
from holdfast.types.statements.sources import Nullable

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.message import Message

__all__ = ["MessageReader"]

_INDEXES_MAX = 64  # messages within messages
_VARINT_BITS = 70
_GROUP_END = 4
_UNREADABLE = (ValueError, ArithmeticError, Untranslatable)
_SIGN = 1 << 63
_ENTRY = ["key", "value"]
_WHOLE = Context(prec=200)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_WRAPPED = "google.protobuf."
_WRAPPERS = {
    f"{_WRAPPED}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}

_Get = Callable[[Any], Any]
_Fields = Mapping[str, _Get]


class MessageReader:
    """Reads records of one writer's schema."""

    def __init__(self, schema: Schema, nullable: Nullable = Nullable.NONE) -> None:
        """Raises `Untranslatable`: the schema does not compile."""
        from google.protobuf.descriptor_pool import DescriptorPool

        self._empty_is_null = nullable is Nullable.BYTES
        files = files_of(schema)
        self._pool = DescriptorPool()
        try:
            for each in files:
                self._pool.AddSerializedFile(each.SerializeToString())
        except TypeError as error:
            raise Untranslatable(f"a Protobuf schema that is incomplete: {error}") from error
        self._file = files[-1]
        self._optional = {
            name for each in files for m in each.message_type for name in _optional(each.package, m)
        }
        self._classes: dict[str, type[Message]] = {}
        self._fields: dict[str, _Fields] = {}

    def read(self, data: bytes) -> dict[str, Any]:
        """The message behind its place within the schema: fields by name, NULL where absent.

        In place of a field that cannot be read there is the error: statements may not need it.

        Raises:
            ValueError: it is no message.
        """
        indexes, start = _indexes(data)
        return self._read(self._class(_named(self._file, indexes)), data[start:])

    def read_bare(self, data: bytes) -> dict[str, Any]:
        """The schema's first message, with nothing before it; see `read`.

        Raises:
            ValueError: it is no message.
        """
        return self._read(self.named("")[1], data)

    def _read(self, kind: type[Message], data: bytes) -> dict[str, Any]:
        from google.protobuf.message import DecodeError

        try:
            return self._plain(kind.FromString(data))
        except (*_UNREADABLE, DecodeError):
            return self._apart(kind, data)

    def _apart(self, kind: type[Message], data: bytes) -> dict[str, Any]:
        """Each of a message's fields by itself; a oneof's members are one."""
        from google.protobuf.empty_pb2 import Empty
        from google.protobuf.message import DecodeError

        try:
            Empty.FromString(data)  # to which all fields are unknown
        except DecodeError as error:
            raise ValueError(str(error)) from error
        numbers, parts = _numbers(kind.DESCRIPTOR), list(_parts(data))
        if not all(number for number, _ in parts):
            raise ValueError("a field has the number 0")  # to which an empty message is blind
        found: dict[str, Any] = {}
        for name, get in self._getters(kind).items():
            own = b"".join(part for number, part in parts if number in numbers[name])
            try:
                found[name] = get(kind.FromString(own))
            except _UNREADABLE as error:
                found[name] = error
            except DecodeError as error:
                found[name] = ValueError(str(error))
        return found

    def named(self, full_name: str) -> tuple[bytes, type[Message]]:
        """The bytes before messages of a name, and their class; an empty one is the first one's.

        Raises:
            Untranslatable: the schema has no such message.
        """
        for indexes, name in _places((), self._file.package, self._file.message_type):
            if full_name in ("", name):
                head = b"".join(_zigzagged(n) for n in (len(indexes), *indexes))
                return b"\0" if indexes == (0,) else head, self._class(name)
        raise Untranslatable(f"a Protobuf schema without a message {full_name}")

    def _class(self, name: str) -> type[Message]:
        from google.protobuf.message_factory import GetMessageClass

        if name not in self._classes:
            self._classes[name] = GetMessageClass(self._pool.FindMessageTypeByName(name))
        return self._classes[name]

    def _plain(self, message: Message) -> dict[str, Any]:
        return {name: get(message) for name, get in self._getters(message).items()}

    def _getters(self, of: Message | type[Message]) -> _Fields:
        kind = of.DESCRIPTOR
        if kind.full_name not in self._fields:
            self._fields[kind.full_name] = dict(self._readers(kind))
        return self._fields[kind.full_name]

    def _readers(self, kind: Any) -> Iterator[tuple[str, _Get]]:
        for oneof in kind.oneofs:
            if oneof.fields[0].full_name not in self._optional:
                members = {f.name: self._value(f) for f in oneof.fields}
                yield f"{oneof.name}_{oneof.index}", partial(_chosen, oneof.name, members)
        for field in kind.fields:
            if field.containing_oneof is None or field.full_name in self._optional:
                yield field.name, self._field(field)

    def _field(self, field: FieldDescriptor) -> _Get:
        name, single = field.name, self._value(field)
        if field.is_repeated:
            return self._entries(field) or (lambda m: [single(v) for v in getattr(m, name)])
        if field.message_type is not None or field.containing_oneof is not None:
            return lambda m: single(getattr(m, name)) if m.HasField(name) else None
        if self._empty_is_null and field.type == field.TYPE_BYTES and not field.default_value:
            return lambda m: getattr(m, name) or None
        # Of proto2, as in Connect, an absent field has its default.
        return lambda m: single(getattr(m, name))

    def _entries(self, field: FieldDescriptor) -> _Get | None:
        """Reads a map, whose keys are text in SQL; None: it is none.

        Entries always have a key and a value: absent ones are empty.
        """
        entry = field.message_type
        if entry is None or not _holds_entries(entry):
            return None
        name = field.name
        key, value = (self._value(entry.fields_by_name[part]) for part in ("key", "value"))
        if entry.GetOptions().map_entry:
            return lambda m: {_text(key(k)): value(getattr(m, name)[k]) for k in getattr(m, name)}
        return lambda m: {_text(key(e.key)): value(e.value) for e in getattr(m, name)}

    def _value(self, field: FieldDescriptor) -> _Get:
        """Makes a plain value of one value of a field."""
        if field.message_type is not None:
            known = _KNOWN.get(field.message_type.full_name)
            if field.message_type.full_name in _WRAPPERS:
                (inner,) = field.message_type.fields
                convert = self._value(inner)
                return lambda m: convert(m.value)
            return known or self._plain
        if field.enum_type is not None:
            numbers, simple = field.enum_type.values_by_number, field.enum_type.name
            return lambda n: numbers[n].name if n in numbers else f"UNKNOWN_ENUM_VALUE_{simple}_{n}"
        if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64):
            return lambda n: n - 2 * _SIGN if n >= _SIGN else n  # Java has no unsigned numbers
        return lambda value: value


def _holds_entries(kind: Any) -> bool:
    """Whether a list of it is a map: as protoc makes one, or as Kafka Connect does."""
    if kind.GetOptions().map_entry:
        return True
    plain = not any(f.is_repeated for f in kind.fields)
    return plain and kind.name.endswith("Entry") and [f.name for f in kind.fields] == _ENTRY


def _numbers(kind: Any) -> Mapping[str, set[int]]:
    """The numbers of fields and of oneofs' members, by the names of their columns."""
    oneofs = {f"{o.name}_{o.index}": {f.number for f in o.fields} for o in kind.oneofs}
    return oneofs | {f.name: {f.number} for f in kind.fields}


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message, with their numbers; a parser has found that they end."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        at = _end(data, at, tag)
        yield tag >> 3, data[start:at]


def _end(data: bytes, at: int, tag: int) -> int:
    """Where the value behind a tag ends."""
    match tag & 7:
        case 0:
            return _varint(data, at)[1]
        case 1:
            return at + 8
        case 2:
            size, at = _varint(data, at)
            return at + size
        case 5:
            return at + 4
    while True:  # a group, to its end
        inner, at = _varint(data, at)
        if inner & 7 == _GROUP_END:
            return at
        at = _end(data, at, inner)


def _optional(scope: str, message: DescriptorProto) -> Iterator[str]:
    """The names of proto3's `optional` fields: each is, in descriptors, alone in a oneof."""
    name = f"{scope}.{message.name}" if scope else message.name
    yield from (f"{name}.{field.name}" for field in message.field if field.proto3_optional)
    for each in message.nested_type:
        yield from _optional(name, each)


def _chosen(oneof: str, members: _Fields, message: Any) -> dict[str, Any] | None:
    name = message.WhichOneof(oneof)
    return None if name is None else {name: members[name](getattr(message, name))}


def _text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _indexes(data: bytes) -> tuple[list[int], int]:
    """Which message within the schema it is, and where it begins."""
    count, at = _zigzag(data, 0)
    if not 0 <= count <= _INDEXES_MAX:
        raise ValueError(f"{count} indexes before a message")
    found = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        found.append(index)
    return found or [0], at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < _VARINT_BITS:
        byte = data[at]  # IndexError: it ends here
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
    raise ValueError("a number without an end")


def _named(file: FileDescriptorProto, indexes: list[int]) -> str:
    names, messages = [file.package] if file.package else [], file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise ValueError(f"the schema has no message {indexes}")
        message: DescriptorProto = messages[index]
        names.append(message.name)
        messages = message.nested_type
    return ".".join(names)


def _places(
    outer: tuple[int, ...], scope: str, messages: Sequence[DescriptorProto]
) -> Iterator[tuple[tuple[int, ...], str]]:
    """The indexes and the name of each message."""
    for index, message in enumerate(messages):
        name = f"{scope}.{message.name}" if scope else message.name
        yield (*outer, index), name
        yield from _places((*outer, index), name, message.nested_type)


def _zigzagged(number: int) -> bytes:
    rest, made = number << 1, bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*made, rest])


def _within(number: int, least: int, most: int) -> int:
    if not least <= number <= most:
        raise ValueError(f"{number} is not between {least} and {most}")
    return number


def _milliseconds(message: Any) -> int:
    seconds = _within(message.seconds, -(_SIGN // 1_000_000), _SIGN // 1_000_000 - 1)
    return int(seconds * 1_000 + _within(message.nanos, 0, 999_999_999) // 1_000_000)


def _days(message: Any) -> int:
    """Since the epoch; an absent month or day is the first one."""
    if message.year > dt.MAXYEAR:
        raise Untranslatable(f"dates after the year {dt.MAXYEAR}")
    day = dt.date(message.year, message.month or 1, message.day or 1)
    return day.toordinal() - _EPOCH_DAY


def _time_of_day(message: Any) -> int:
    seconds = _within(message.hours, 0, 23) * 3_600 + _within(message.minutes, 0, 59) * 60
    millis = _within(message.nanos, 0, 999_999_999) // 1_000_000
    return int((seconds + _within(message.seconds, 0, 59)) * 1_000 + millis)


def _decimal(message: Any) -> Decimal:
    unscaled = Decimal(int.from_bytes(message.value, "big", signed=True))
    return unscaled.scaleb(-message.scale, _WHOLE)


_KNOWN: Mapping[str, _Get] = {
    "google.protobuf.Timestamp": _milliseconds,
    "google.type.Date": _days,
    "google.type.TimeOfDay": _time_of_day,
    "confluent.type.Decimal": _decimal,
}
