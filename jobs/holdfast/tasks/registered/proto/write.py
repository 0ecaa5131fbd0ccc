"""Encodes columns into messages: casts in columns, then `ptars` from Arrow to bytes.

Protobuf has no NULL within lists and maps, nor in fields without presence: the type's default
value stands there, as ksqlDB writes it.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
from holdfast.tasks.registered.proto.layout import (
    Layout,
    has_presence,
    member_fields,
    name_of,
    the_field,
)
from holdfast.tasks.registered.proto.parse import known_message
from holdfast.types.columns.schema import Base, Column, SqlType

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

__all__ = ["MessageWriter"]

_Numbers: TypeAlias = "npt.NDArray[np.int64]"
_Convert: TypeAlias = "Callable[[pa.Array], pa.Array]"
_DAY_MS = 86_400_000
_MAX_DIGITS = decimal.Context(prec=100)
_SCALARS = {
    Base.BOOLEAN: ("bool",),
    Base.INTEGER: ("int32", "sint32", "sfixed32", "int64", "sint64", "sfixed64"),
    Base.BIGINT: ("int64", "sint64", "sfixed64", "uint32", "fixed32", "uint64", "fixed64"),
    Base.DOUBLE: ("double", "float"),
    Base.STRING: ("string",),
    Base.BYTES: ("bytes",),
}
_OWN = {DECIMAL: Base.DECIMAL, TIMESTAMP: Base.TIMESTAMP, DATE: Base.DATE, TIME: Base.TIME}


class MessageWriter:
    """Encodes rows of columns as messages of one type; fields without a column are left out."""

    def __init__(
        self,
        file: ProtoFile,
        message: ProtoMessage,
        columns: Sequence[Column],
    ) -> None:
        """Raises `ProtoError`: a column has no field, or one of a type that does not fit."""
        layout = Layout(file)
        made = layout.message()
        self._parts = _parts(layout, made, message, columns)
        self._handler, _ = layout.handler(made)
        self._schema = self._handler.schema()

    def write(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """A BINARY array with a message per row.

        Raises:
            ProtoError: a value does not fit its field.
        """
        fields = _fields(self._parts, arrays)
        try:
            ready = [_as(fields[f.name], f.type) for f in self._schema]
            batch = pa.RecordBatch.from_arrays(ready, schema=self._schema)
            return self._handler.record_batch_to_array(batch)
        except (pa.ArrowInvalid, ValueError, OverflowError) as error:
            raise ProtoError(f"a value does not fit its field ({error})") from None


_Part: TypeAlias = "tuple[Sequence[str], Callable[[pa.Array], Sequence[pa.Array]]]"
"""The names of the fields that a column fills, and how."""


def _fields(parts: Sequence[_Part], arrays: Sequence[pa.Array]) -> dict[str, pa.Array]:
    return {
        name: made
        for (names, convert), array in zip(parts, arrays, strict=True)
        for name, made in zip(names, convert(array), strict=True)
    }


def _parts(
    layout: Layout, to: DescriptorProto, message: ProtoMessage, columns: Sequence[Column]
) -> list[_Part]:
    return [_part(layout, to, message, each) for each in columns]


def _part(layout: Layout, to: DescriptorProto, message: ProtoMessage, column: Column) -> _Part:
    members = member_fields(message, column.name)
    if members and column.type.base is Base.STRUCT:
        return _oneof(layout, to, members, column.type)
    field = the_field(message, column.name)
    if field is None:
        raise ProtoError(f"message {message.name} has no field for the column {column.name}")
    convert = _value(layout, to, field, column.type)
    return (name_of(field),), lambda a: (convert(a),)


def _oneof(
    layout: Layout, to: DescriptorProto, members: Sequence[ProtoField], kind: SqlType
) -> _Part:
    by_name = {f.name.upper(): f for f in members}
    missing = [c.name for c in kind.fields if c.name.upper() not in by_name]
    if missing:
        raise ProtoError(f"the oneof {members[0].oneof} has no member {missing[0]}")
    fields = [by_name[c.name.upper()] for c in kind.fields]
    made = [_value(layout, to, f, c.type) for f, c in zip(fields, kind.fields, strict=True)]

    def convert(array: pa.Array) -> Sequence[pa.Array]:
        return [each(part) for each, part in zip(made, array.flatten(), strict=True)]

    return tuple(name_of(f) for f in fields), convert


def _value(layout: Layout, to: DescriptorProto, field: ProtoField, kind: SqlType) -> _Convert:
    """How a column becomes a field, nulls included."""
    if field.entries:
        convert, inner = _entries(layout, field, kind)
        layout.add(to, field, inner)
        return convert
    if field.repeated:
        if kind.base is not Base.ARRAY or kind.element is None:
            raise _misfit(layout.file, field, kind)
        items, made = _single(layout, field, kind.element)
        layout.add(to, field, made)
        filled = _filled(items, message=made is not None, of=field)
        return lambda a: _list(a, filled)
    convert, made = _single(layout, field, kind)
    if made is not None or has_presence(field):
        layout.add(to, field, made)
        return convert
    return _plain(layout, to, field, convert)


def _plain(layout: Layout, to: DescriptorProto, field: ProtoField, convert: _Convert) -> _Convert:
    """A scalar without presence."""
    if field.type not in ("double", "float"):
        layout.add(to, field, None)
        return _filled(convert, message=False, of=field)
    # `ptars` would take -0.0 for 0.0, and leave it out.
    layout.add(to, replace(field, optional=True), None)
    return lambda a: _without_zeros(convert(a))


def _without_zeros(array: pa.Array) -> pa.Array:
    """Doubles without 0.0, which is not written; -0.0 is another value."""
    numbers = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False)
    return pa.array(numbers, mask=numbers.view(np.int64) == 0)


def _entries(layout: Layout, field: ProtoField, kind: SqlType) -> tuple[_Convert, DescriptorProto]:
    if kind.base is not Base.MAP or kind.element is None:
        raise _misfit(layout.file, field, kind)
    made = layout.message()
    parts, names = [], []
    for part, given in zip(layout.file.entry(field), (kind.map_key, kind.element), strict=True):
        convert, inner = _single(layout, part, given)
        if inner is None:
            parts.append(_plain(layout, made, part, convert))
        else:
            layout.add(made, part, inner)
            parts.append(_filled(convert, message=True, of=part))
        names.append(name_of(part))
    key, value = parts
    return lambda a: _map(a, names, key, value), made


def _filled(convert: _Convert, *, message: bool, of: ProtoField) -> _Convert:
    """With the default value in place of nulls; of a message, one without fields.

    Such a message is a time, a decimal or a struct to every reader, but no date: its year is 0.
    """

    def fill(array: pa.Array) -> pa.Array:
        made = convert(array)
        if not made.null_count:
            return made
        if of.type == DATE:
            raise ProtoError(
                f"its field {of.name} has a NULL in a list or map, where Protobuf has no date for "
                "it; leave NULLs out, as FILTER(dates, d => d IS NOT NULL) does"
            )
        if message:
            return pa.StructArray.from_arrays(
                [_defaulted(p) for p in made.flatten()], fields=list(made.type)
            )
        return _defaulted(made)

    return fill


def _defaulted(array: pa.Array) -> pa.Array:
    """Defaults in place of nulls where the type is a scalar."""
    kind = array.type
    if not array.null_count or pa.types.is_nested(kind):
        return array
    zero: object = 0
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        zero = b""
    return pc.fill_null(array, pa.scalar(zero, pa.int8() if zero == 0 else pa.binary()).cast(kind))


def _list(array: pa.Array, convert: _Convert) -> pa.Array:
    """Lists; an empty one in place of NULL."""
    dense = array.filter(array.is_valid())
    return pa.ListArray.from_arrays(_offsets(array, dense), convert(dense.flatten()))


def _map(array: pa.Array, names: Sequence[str], key: _Convert, value: _Convert) -> pa.Array:
    """Lists of entries; an empty one in place of NULL."""
    dense = array.filter(array.is_valid())
    entries = pa.StructArray.from_arrays([key(dense.keys), value(dense.items)], names=names)
    return pa.ListArray.from_arrays(_offsets(array, dense), entries)


def _offsets(array: pa.Array, dense: pa.Array) -> pa.Array:
    """Offsets of all rows into the values of those that are not null."""
    lengths = np.zeros(len(array) + 1, np.int32)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    lengths[1:][valid] = np.diff(dense.offsets.to_numpy())
    return pa.array(np.cumsum(lengths, dtype=np.int32))


def _single(
    layout: Layout, field: ProtoField, kind: SqlType
) -> tuple[_Convert, DescriptorProto | None]:
    if field.type in layout.file.enums:
        if kind.base is not Base.STRING:
            raise _misfit(layout.file, field, kind)
        return _enum(field.type, layout.file.enums[field.type]), None
    message = layout.file.messages.get(field.type)
    if message is None:
        if field.type not in _SCALARS.get(kind.base, ()):
            raise _misfit(layout.file, field, kind)
        return lambda a: a, None
    made = layout.message()
    if field.type in WRAPPERS:
        (value,) = known_message(field.type).fields
        if value.type not in _SCALARS.get(kind.base, ()):
            raise _misfit(layout.file, field, kind)
        plain = _plain(layout, made, value, lambda a: a)
        return lambda a: _record({"f1": plain(a)}, a), made
    if field.type in _OWN:
        if kind.base is not _OWN[field.type]:
            raise _misfit(layout.file, field, kind)
        for part in known_message(field.type).fields:
            layout.add(made, part, None)
        return _own(kind), made
    if kind.base is not Base.STRUCT:
        raise _misfit(layout.file, field, kind)
    return _struct(_parts(layout, made, message, kind.fields)), made


def _struct(parts: Sequence[_Part]) -> _Convert:
    return lambda a: _record(_fields(parts, a.flatten()), a)


def _record(fields: dict[str, pa.Array], like: pa.Array) -> pa.Array:
    """A struct of these fields, null where `like` is."""
    return pa.StructArray.from_arrays(
        list(fields.values()), names=list(fields), mask=like.is_null()
    )


def _enum(full_name: str, names: Mapping[int, str]) -> _Convert:
    numbers = pa.array(list(names), pa.int32())
    texts = pa.array(list(names.values()), pa.string())

    def convert(array: pa.Array) -> pa.Array:
        found = numbers.take(pc.index_in(array, texts))
        if found.null_count > array.null_count:
            odd = array.filter(pc.and_(array.is_valid(), found.is_null()))[0].as_py()
            raise ProtoError(f"the enum {full_name} has no value {odd[:100]!r}")
        return found

    return convert


def _own(kind: SqlType) -> _Convert:
    if kind.base is Base.DECIMAL:
        return lambda a: _decimals(a, kind)
    parts = _PARTS[kind.base]

    def convert(array: pa.Array) -> pa.Array:
        whole = pa.int64() if kind.base is Base.TIMESTAMP else pa.int32()
        numbers = pc.fill_null(array.cast(whole), 0).to_numpy(zero_copy_only=False)
        made = parts(numbers.astype(np.int64))
        return _record({f"f{n}": pa.array(each) for n, each in enumerate(made, 1)}, array)

    return convert


def _timestamps(micros: _Numbers) -> Sequence[_Numbers]:
    millis = micros // 1_000
    return millis // 1_000, millis % 1_000 * 1_000_000


def _dates(days: _Numbers) -> Sequence[_Numbers]:
    day = days.astype("M8[D]")
    month = day.astype("M8[M]")
    year = month.astype("M8[Y]")
    return (
        year.astype(np.int64) + 1970,
        (month - year.astype("M8[M]")).astype(np.int64) + 1,
        (day - month.astype("M8[D]")).astype(np.int64) + 1,
    )


def _times(millis: _Numbers) -> Sequence[_Numbers]:
    within = millis % _DAY_MS
    seconds = within // 1_000
    return seconds // 3_600, seconds // 60 % 60, seconds % 60, within % 1_000 * 1_000_000


_PARTS: Mapping[Base, Callable[[_Numbers], Sequence[_Numbers]]] = {
    Base.TIMESTAMP: _timestamps,
    Base.DATE: _dates,
    Base.TIME: _times,
}


def _decimals(array: pa.Array, kind: SqlType) -> pa.Array:
    """Unscaled, big-endian, in as few bytes as Java's BigInteger takes."""
    data = []
    for value in array.to_pylist():
        unscaled = 0 if value is None else int(value.scaleb(kind.scale, _MAX_DIGITS))
        size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        data.append(unscaled.to_bytes(size, "big", signed=True))
    rows = len(array)
    fields = {
        "f1": pa.array(data, pa.binary()),
        "f2": pa.array(np.full(rows, kind.precision), pa.uint32()),
        "f3": pa.array(np.full(rows, kind.scale), pa.int32()),
    }
    return _record(fields, array)


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array in exactly the type that `ptars` expects, at every depth."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        parts = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
        made = [_as(_present(parts[f.name], f), f.type) for f in kind]
        return pa.StructArray.from_arrays(made, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            array.offsets, _as(array.values, kind.value_type), type=kind
        )
    # Java has no unsigned numbers: a BIGINT below zero is one of the largest.
    return array.cast(kind, safe=not pa.types.is_uint64(kind))


def _present(array: pa.Array, field: pa.Field) -> pa.Array:
    """Below an absent struct, something must stand in fields that cannot be null."""
    if field.nullable or not array.null_count:
        return array
    if pa.types.is_list(array.type):
        return _list(array, lambda a: a)
    return _defaulted(array)


def _misfit(file: ProtoFile, field: ProtoField, kind: SqlType) -> ProtoError:
    return ProtoError(f"its field {field.name} is {file.written(field)}, but the column is {kind}")
