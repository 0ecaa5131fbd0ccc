"""Decodes messages into columns: `ptars` from bytes to Arrow, then casts, all in columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

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
from holdfast.tasks.registered.proto.framed import Framed
from holdfast.tasks.registered.proto.layout import (
    Layout,
    has_presence,
    member_fields,
    name_of,
    the_field,
)
from holdfast.tasks.registered.proto.logical import logical
from holdfast.tasks.registered.proto.parse import known_message, whole_number
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.statements.sources import Nullable

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto
    from google.protobuf.message import Message

__all__ = ["MessageReader"]

_Convert: TypeAlias = "Callable[[pa.Array], pa.Array]"
_FromFields: TypeAlias = "Callable[[Mapping[str, pa.Array], int], pa.Array]"
"""A column from the arrays of a message's fields, by their names, and the number of rows."""

_SMALL = ("int32", "sint32", "sfixed32")
_WHOLE = (*_SMALL, "int64", "sint64", "sfixed64", "uint32", "fixed32", "uint64", "fixed64")
_REAL = ("float", "double")
_FITS: Mapping[Base, tuple[str, ...]] = {
    Base.BOOLEAN: ("bool",),
    Base.INTEGER: _SMALL,
    Base.BIGINT: _WHOLE,
    Base.DOUBLE: (*_WHOLE, *_REAL),
    Base.STRING: ("string", "bool", *_WHOLE),
    Base.BYTES: ("bytes",),
}
_OWN = {DECIMAL: Base.DECIMAL, TIMESTAMP: Base.TIMESTAMP, DATE: Base.DATE, TIME: Base.TIME}


@cache
def _arrow_types() -> Mapping[str, pa.DataType]:
    """By Protobuf's scalar types; made when they are used, since Arrow is loaded late."""
    return {
        **dict.fromkeys(_SMALL, pa.int32()),
        **dict.fromkeys(("int64", "sint64", "sfixed64"), pa.int64()),
        **dict.fromkeys(("uint32", "fixed32"), pa.uint32()),
        **dict.fromkeys(("uint64", "fixed64"), pa.uint64()),
        "float": pa.float32(), "double": pa.float64(), "bool": pa.bool_(),
        "string": pa.string(), "bytes": pa.binary(),
    }  # fmt: skip


class MessageReader:
    """Decodes messages of one type into the wanted columns."""

    def __init__(
        self,
        file: ProtoFile,
        message: ProtoMessage,
        wanted: Sequence[Column],
        nullable: Nullable = Nullable.NONE,
    ) -> None:
        """Raises `ProtoError`: a field and its column are of types that do not fit."""
        layout = Layout(file, nullable)
        made = layout.message()
        self._columns = _columns(layout, made, message, wanted)
        lists = layout.list_of(made)
        self._handler, self._class = layout.handler(made)
        self._list = _class_beside(self._class, lists)

    def read_all(self, framed: Framed) -> tuple[pa.Array, ...] | None:
        """The columns of all messages; see `read`.

        None: a message is bad, or a value does not fit; `why_bad` and `read` find out which.
        """
        from google.protobuf.message import DecodeError

        if not framed.can_be_listed:
            return None
        try:
            for each in framed.as_lists():
                self._list.FromString(each)
            return self.read(framed.messages())
        except (DecodeError, ProtoError):
            return None

    def why_bad(self, messages: Sequence[bytes]) -> dict[int, str]:
        """Which messages Google's own parser refuses, by their places, and why.

        `read` is for the others: `ptars` panics over some garbage, takes other garbage for values,
        and follows unknown groups until the process ends.
        """
        from google.protobuf.message import DecodeError

        parse, bad = self._class.FromString, {}
        for place, message in enumerate(messages):
            try:
                parse(message)
            except DecodeError as error:
                bad[place] = str(error)
        return bad

    def read(self, messages: pa.Array) -> tuple[pa.Array, ...]:
        """The columns of a BINARY array of messages.

        Raises:
            ProtoError: a value does not fit its column.
        """
        try:
            batch = self._handler.array_to_record_batch(messages)
            fields = dict(zip(batch.schema.names, batch.columns, strict=True))
            return tuple(make(fields, len(messages)) for make in self._columns)
        except (ValueError, ArithmeticError) as error:
            raise ProtoError(f"a value does not fit its column ({error})") from None


def _class_beside(known: type[Message], name: str) -> type[Message]:
    from google.protobuf import message_factory

    found: Any = known.DESCRIPTOR.file.pool.FindMessageTypeByName(name)
    return message_factory.GetMessageClass(found)


def _columns(
    layout: Layout, to: DescriptorProto, message: ProtoMessage, wanted: Sequence[Column]
) -> list[_FromFields]:
    return [_column(layout, to, message, each) for each in wanted]


def _column(
    layout: Layout, to: DescriptorProto, message: ProtoMessage, column: Column
) -> _FromFields:
    members = member_fields(message, column.name)
    if members and column.type.base is Base.STRUCT:
        return _oneof(layout, to, members, column.type)
    field = the_field(message, column.name)
    if field is None:
        kind = column.type.arrow()
        return lambda _, rows: pa.nulls(rows, kind)
    return _field(layout, to, field, column.type)


def _oneof(
    layout: Layout, to: DescriptorProto, members: Sequence[ProtoField], kind: SqlType
) -> _FromFields:
    """A STRUCT of the members, NULL where none is there.

    A record with several of them, which no library writes, has them all: `ptars` keeps each.
    """
    by_name = {f.name.upper(): f for f in members}
    made = {
        c.name: _field(layout, to, by_name[c.name.upper()], c.type)
        for c in kind.fields
        if c.name.upper() in by_name
    }
    arrow = kind.arrow()

    def convert(fields: Mapping[str, pa.Array], rows: int) -> pa.Array:
        parts = [
            made[c.name](fields, rows) if c.name in made else pa.nulls(rows, c.type.arrow())
            for c in kind.fields
        ]
        nothing = np.ones(rows, bool)
        for part in parts:
            nothing &= part.is_null().to_numpy(zero_copy_only=False)
        return pa.StructArray.from_arrays(parts, fields=list(arrow), mask=pa.array(nothing))

    return convert


def _field(layout: Layout, to: DescriptorProto, field: ProtoField, kind: SqlType) -> _FromFields:
    name = name_of(field)
    convert = _value(layout, to, field, kind)
    return lambda fields, _: convert(fields[name])


def _value(layout: Layout, to: DescriptorProto, field: ProtoField, kind: SqlType) -> _Convert:
    if field.entries:
        entries, made = _entries(layout, field, kind)
        layout.add(to, field, made)
        return entries
    if field.repeated:
        if kind.base is not Base.ARRAY or kind.element is None:
            raise _misfit(layout.file, field, kind)
        items, inner = _single(layout, field, kind.element)
        layout.add(to, field, inner)
        return lambda a: _list(a, items, kind.arrow(), of_closed=field.type in layout.file.closed)
    convert, inner = _single(layout, field, kind)
    layout.add(to, field, inner)
    if inner is None and field.default:
        return _defaulted(layout.file, field, convert)
    if layout.nullable is Nullable.BYTES and field.type == "bytes" and not has_presence(field):
        return lambda a: _null_if_empty(convert(a))
    return convert


def _null_if_empty(array: pa.Array) -> pa.Array:
    return pc.if_else(pc.greater(pc.binary_length(array), 0), array, pa.scalar(None, array.type))


def _defaulted(file: ProtoFile, field: ProtoField, convert: _Convert) -> _Convert:
    """With proto2's default in place of what is absent."""
    if field.type in file.enums:
        if field.default not in file.enums[field.type].values():
            raise _no_default(field)
        return lambda a: pc.fill_null(convert(a), field.default)
    default = whole_number(field.default) if field.type in _WHOLE else field.default
    try:
        filler = pa.scalar(default).cast(_arrow_types()[field.type])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        filler = None
    if filler is None or not filler.is_valid:
        raise _no_default(field)
    return lambda a: convert(pc.fill_null(a, filler))


def _no_default(field: ProtoField) -> ProtoError:
    return ProtoError(f"{field.default[:40]!r} is no default of its field {field.name}")


def _entries(layout: Layout, field: ProtoField, kind: SqlType) -> tuple[_Convert, DescriptorProto]:
    if kind.base is not Base.MAP or kind.element is None:
        raise _misfit(layout.file, field, kind)
    made = layout.message()
    parts = []
    for part, wanted in zip(layout.file.entry(field), (kind.map_key, kind.element), strict=True):
        convert, inner = _single(layout, part, wanted)
        layout.add(made, part, inner)
        parts.append(convert)
    (key, value), arrow = layout.file.entry(field), kind.arrow()
    names, closed = (name_of(key), name_of(value)), value.type in layout.file.closed
    return lambda a: _map(a, names, parts, arrow, of_closed=closed), made


def _map(
    array: pa.Array, names: Sequence[str], converts: Sequence[_Convert], kind: pa.DataType,
    *, of_closed: bool,
) -> pa.Array:  # fmt: skip
    """A map of the entries; of several with one key the last counts, as in all libraries.

    `of_closed`: its values are a closed enum's; entries with unknown numbers are left out.
    """
    entries = array.values
    places = [entries.type.get_field_index(name) for name in names]
    keys, items = (
        convert(_there(entries.field(place)))
        for convert, place in zip(converts, places, strict=True)
    )
    offsets = array.offsets.to_numpy()
    if of_closed and items.null_count:
        offsets = _kept(array.offsets, items).to_numpy()
        keys, items = keys.filter(items.is_valid()), items.drop_null()
    kept = _last_of_each(keys, np.repeat(np.arange(len(array)), np.diff(offsets)))
    if kept is not None:
        keys, items = keys.take(kept), items.take(kept)
        offsets = np.searchsorted(kept, offsets)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items).cast(kind)


def _last_of_each(keys: pa.Array, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """The places of each row's last entry of a key; None: no key is there twice."""
    coded = pc.dictionary_encode(keys)
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    both = rows * max(len(coded.dictionary), 1) + codes
    _, last = np.unique(both[::-1], return_index=True)
    return None if len(last) == len(both) else np.sort(len(both) - 1 - last)


def _there(array: pa.Array) -> pa.Array:
    """A message that its entry lacks is an empty one: entries always have a key and a value."""
    if not array.null_count:
        return array
    parts = [array.field(n) for n in range(array.type.num_fields)]
    return pa.StructArray.from_arrays(parts, fields=list(array.type))


def _list(
    array: pa.Array, convert: _Convert, kind: pa.DataType, *, of_closed: bool
) -> pa.Array:  # fmt: skip
    """`of_closed`: of a closed enum's values; unknown numbers are left out."""
    offsets, items = _offsets(array), convert(array.values)
    if of_closed and items.null_count:
        offsets, items = _kept(offsets, items), items.drop_null()
    return pa.ListArray.from_arrays(offsets, items).cast(kind)


def _kept(offsets: pa.Array, items: pa.Array) -> pa.Array:
    """The offsets once the items that are null are left out."""
    valid = items.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(np.append(0, np.cumsum(valid)), pa.int32()).take(offsets)


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets that are null where the list is."""
    if not array.null_count:
        return array.offsets
    null = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
    return pa.array(array.offsets.to_numpy(), pa.int32(), mask=null)


def _single(
    layout: Layout, field: ProtoField, kind: SqlType
) -> tuple[_Convert, DescriptorProto | None]:
    """How one value is converted, and its message within the layout."""
    if field.type in layout.file.enums:
        if kind.base is not Base.STRING:
            raise _misfit(layout.file, field, kind)
        return _enum(layout.file, field.type), None
    message = layout.file.messages.get(field.type)
    if message is None:
        return _scalar(layout.file, field, kind), None
    made = layout.message()
    if field.type in WRAPPERS:
        (value,) = known_message(field.type).fields
        layout.add(made, value, None)
        scalar = _scalar(layout.file, value, kind)
        return lambda a: scalar(a.flatten()[0]), made
    if field.type in _OWN:
        if kind.base is not _OWN[field.type]:
            raise _misfit(layout.file, field, kind)
        for part in known_message(field.type).fields:
            layout.add(made, part, None)
        return logical(kind), made
    if kind.base is not Base.STRUCT:
        raise _misfit(layout.file, field, kind)
    return _struct(_columns(layout, made, message, kind.fields), kind), made


def _struct(parts: Sequence[_FromFields], kind: SqlType) -> _Convert:
    arrow = kind.arrow()

    def convert(array: pa.Array) -> pa.Array:
        fields = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
        made = [make(fields, len(array)) for make in parts]
        return pa.StructArray.from_arrays(made, fields=list(arrow), mask=array.is_null())

    return convert


def _scalar(file: ProtoFile, field: ProtoField, kind: SqlType) -> _Convert:
    if field.type not in _FITS.get(kind.base, ()):
        raise _misfit(file, field, kind)
    arrow = kind.arrow()
    if kind.base is Base.STRING and field.type == "bool":
        return lambda a: a.cast(arrow)
    # Java has no unsigned numbers: the largest ones are negative there.
    return lambda a: a.cast(arrow, safe=False) if a.type != arrow else a


def _enum(file: ProtoFile, full_name: str) -> _Convert:
    """Names; a closed enum's are null where it does not have the number."""
    names, closed = file.enums[full_name], full_name in file.closed
    numbers = pa.array(list(names), pa.int32())
    texts = pa.array(list(names.values()), pa.string())
    simple = full_name.rpartition(".")[2]

    def convert(array: pa.Array) -> pa.Array:
        places = pc.index_in(array, numbers)
        found = texts.take(places)
        if closed or found.null_count == array.null_count:
            return found
        # As Java's library calls a number that the schema does not know.
        unknown = pc.binary_join_element_wise(
            f"UNKNOWN_ENUM_VALUE_{simple}_", array.cast(pa.string()), ""
        )
        return pc.coalesce(found, unknown)

    return convert


def _misfit(file: ProtoFile, field: ProtoField, kind: SqlType) -> ProtoError:
    written = file.written(field)
    return ProtoError(f"its field {field.name} is {written}, but the column is {kind}")
