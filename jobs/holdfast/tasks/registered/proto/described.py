"""Schemas that are no text: a file's descriptor in base64, as Python's clients register it."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from holdfast.tasks.registered.proto.files import ProtoError, ProtoField, ProtoFile, ProtoMessage

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
    )
    from google.protobuf.message import Message

__all__ = ["described_file", "is_described"]

_BASE64 = re.compile(r"\s*[A-Za-z0-9+/]{4,}={0,2}\s*")
_META = 1088  # the number of Confluent's annotation among a field's options
_SMALL = re.compile(r"[0-9]{1,4}")


def is_described(text: str) -> bool:
    """Whether a schema may be a descriptor; .proto text has spaces, quotes and braces."""
    return _BASE64.fullmatch(text) is not None


def described_file(text: str) -> ProtoFile:
    """The declarations of a descriptor; names of types begin with a point.

    Raises:
        ProtoError: it is none, or has a group.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        file = FileDescriptorProto.FromString(b64decode(text))
    except (DecodeError, binascii.Error) as error:
        raise ProtoError(f"it is neither .proto text nor a descriptor in base64: {error}") from None
    scope = file.package
    messages = {m.name: m for each in file.message_type for m in _messages(scope, each)}
    enums = dict(e for each in file.message_type for e in _enums_within(scope, each))
    enums |= dict(_enum(scope, each) for each in file.enum_type)
    top = tuple(_name(scope, each.name) for each in file.message_type)
    closed = frozenset(enums if file.syntax in ("", "proto2") else ())
    return ProtoFile(file.package, top, messages, enums, closed)


def _name(scope: str, simple: str) -> str:
    return f"{scope}.{simple}" if scope else simple


def _messages(scope: str, message: DescriptorProto) -> Iterator[ProtoMessage]:
    name = _name(scope, message.name)
    oneofs = [o.name for o in message.oneof_decl]
    fields = tuple(_field(each, oneofs) for each in message.field)
    real = dict.fromkeys(f.oneof for f in fields if f.oneof)
    nested = tuple(_name(name, each.name) for each in message.nested_type)
    yield ProtoMessage(name, fields, tuple(real), nested)
    for each in message.nested_type:
        yield from _messages(name, each)


def _field(field: FieldDescriptorProto, oneofs: list[str]) -> ProtoField:
    kind = field.Type.Name(field.type).removeprefix("TYPE_").lower()
    if kind == "group":
        raise ProtoError("it has a group, which proto3 and ksqlDB do not know")
    within = field.HasField("oneof_index") and not field.proto3_optional
    params = _params(field)
    return ProtoField(
        field.name,
        field.number,
        field.type_name or kind,
        repeated=field.label == field.LABEL_REPEATED,
        optional=field.proto3_optional,
        oneof=oneofs[field.oneof_index] if within else "",
        default=field.default_value,
        precision=params.get("precision", 0),
        scale=params.get("scale", 0),
    )


def _enums_within(scope: str, message: DescriptorProto) -> Iterator[tuple[str, dict[int, str]]]:
    name = _name(scope, message.name)
    yield from (_enum(name, each) for each in message.enum_type)
    for each in message.nested_type:
        yield from _enums_within(name, each)


def _enum(scope: str, enum: EnumDescriptorProto) -> tuple[str, dict[int, str]]:
    names: dict[int, str] = {}
    for value in enum.value:
        names.setdefault(value.number, value.name)
    return _name(scope, enum.name), names


def _params(field: FieldDescriptorProto) -> dict[str, int]:
    """Confluent's annotation of a decimal."""
    if not field.HasField("options"):
        return {}
    from google.protobuf.message import DecodeError

    try:
        options = _options().FromString(field.options.SerializeToString())
    except DecodeError:
        return {}
    params = dict(options.meta.params)  # type: ignore[attr-defined]
    return {k: int(v) for k, v in params.items() if _SMALL.fullmatch(v)}


@cache
def _options() -> type[Message]:
    """A field's options with Confluent's annotation alone."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="meta.proto", package="meta", syntax="proto3")
    options, meta = file.message_type.add(name="Options"), file.message_type.add(name="Meta")
    entry = meta.nested_type.add(name="ParamsEntry")
    entry.options.map_entry = True
    made = [
        options.field.add(name="meta", number=_META, type_name=".meta.Meta"),
        meta.field.add(name="params", number=2, type_name=".meta.Meta.ParamsEntry"),
        entry.field.add(name="key", number=1),
        entry.field.add(name="value", number=2),
    ]
    for each in made:
        each.label = each.LABEL_OPTIONAL
        each.type = each.TYPE_MESSAGE if each.type_name else each.TYPE_STRING
    made[1].label = made[1].LABEL_REPEATED
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("meta.Options"))
