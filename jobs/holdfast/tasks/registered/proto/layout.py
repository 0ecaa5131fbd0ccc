"""The part of a message that the wanted columns need, as a descriptor that `ptars` works with.

Protobuf skips fields that a descriptor lacks, so what nobody reads is not decoded: neither columns
nor messages that contain themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from holdfast.tasks.registered.proto.columns import oneof_field
from holdfast.tasks.registered.proto.files import ProtoField, ProtoFile, ProtoMessage
from holdfast.types.statements.sources import Nullable

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.descriptor_pb2 import DescriptorProto
    from google.protobuf.message import Message

__all__ = ["Handler", "Layout", "has_presence", "member_fields", "name_of", "the_field"]

_FILE, _PACKAGE = "holdfast.proto", "holdfast"


class Handler(Protocol):
    """Converts one message's bytes: `ptars`, which has no types of its own."""

    def schema(self) -> pa.Schema:
        """The Arrow schema of its record batches."""

    def array_to_record_batch(self, messages: pa.Array) -> pa.RecordBatch:
        """Decodes; raises `ValueError`."""

    def record_batch_to_array(self, batch: pa.RecordBatch) -> pa.Array:
        """Encodes."""


class Layout:
    """Collects the fields that are needed, and makes the handler of the outermost message."""

    def __init__(self, file: ProtoFile, nullable: Nullable = Nullable.NONE) -> None:
        from google.protobuf import descriptor_pb2

        self.file = file
        self.nullable = nullable
        self._made = descriptor_pb2.FileDescriptorProto(
            name=_FILE, package=_PACKAGE, syntax="proto3"
        )

    def message(self) -> DescriptorProto:
        """A new message, without fields yet."""
        return self._made.message_type.add(name=f"M{len(self._made.message_type)}")

    def list_of(self, message: DescriptorProto) -> str:
        """The full name of a new message, whose first field holds any number of the other one."""
        made = self.message()
        field = made.field.add(name="all", number=1)
        field.label, field.type = field.LABEL_REPEATED, field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{message.name}"
        return f"{_PACKAGE}.{made.name}"

    def add(self, to: DescriptorProto, field: ProtoField, inner: DescriptorProto | None) -> None:
        """Adds a field of the same number and layout; enums are their numbers.

        Args:
            inner: the message of this layout that is the field's type, or holds a map's entries.
        """
        made = to.field.add(name=name_of(field), number=field.number)
        made.label = made.LABEL_REPEATED if field.repeated else made.LABEL_OPTIONAL
        if inner is not None:
            made.type, made.type_name = made.TYPE_MESSAGE, f".{_PACKAGE}.{inner.name}"
        else:
            kind = "int32" if field.type in self.file.enums else field.type
            made.type = made.Type.Value(f"TYPE_{kind.upper()}")
        if field.oneof:
            made.oneof_index = _oneof(to, field.oneof)
        elif inner is None and has_presence(field):  # messages have it anyway
            made.proto3_optional = True
            made.oneof_index = _oneof(to, f"_{name_of(field)}")

    def handler(self, message: DescriptorProto) -> tuple[Handler, type[Message]]:
        """The converter between bytes and Arrow, and the message's class."""
        from google.protobuf import descriptor_pool, message_factory
        from ptars import HandlerPool

        _order_oneofs(self._made.message_type)
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(self._made.SerializeToString())
        descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}")
        found: Handler = HandlerPool([descriptor.file]).get_for_message(descriptor)
        return found, message_factory.GetMessageClass(descriptor)


def has_presence(field: ProtoField) -> bool:
    """Whether an absent scalar differs from the type's default value."""
    return bool(field.oneof or field.optional or field.default)


def name_of(field: ProtoField) -> str:
    """The field's name within a layout."""
    return f"f{field.number}"


def the_field(message: ProtoMessage, column: str) -> ProtoField | None:
    """The field of a column: of that very name, or of that name in another case."""
    plain = [f for f in message.fields if not f.oneof]
    return _named(plain, column)


def member_fields(message: ProtoMessage, column: str) -> Sequence[ProtoField]:
    """The members of the oneof of a column; none: it is no oneof's."""
    for oneof in message.oneofs:
        if oneof_field(message, oneof).upper() == column.upper():
            return [f for f in message.fields if f.oneof == oneof]
    return ()


def _named(fields: Iterable[ProtoField], name: str) -> ProtoField | None:
    found = [f for f in fields if f.name.upper() == name.upper()]
    return next((f for f in found if f.name == name), found[0] if found else None)


def _oneof(message: DescriptorProto, name: str) -> int:
    names = [o.name for o in message.oneof_decl]
    if name in names:
        return names.index(name)
    message.oneof_decl.add(name=name)
    return len(names)


def _order_oneofs(messages: Iterable[DescriptorProto]) -> None:
    """Descriptors must have the oneofs of optional fields after all others."""
    for message in messages:
        synthetic = {f.oneof_index for f in message.field if f.proto3_optional}
        names = [o.name for o in message.oneof_decl]
        order = sorted(range(len(names)), key=lambda i: (i in synthetic, i))
        places = {old: new for new, old in enumerate(order)}
        for field in message.field:
            if field.HasField("oneof_index"):
                field.oneof_index = places[field.oneof_index]
        del message.oneof_decl[:]
        for old in order:
            message.oneof_decl.add(name=names[old])
