"""Protobuf with a registry: columns from schemas and back, and messages behind their places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from holdfast.errors import SchemaMissing, SchemaRefused
from holdfast.tasks.registered.proto.columns import columns_of, file_of, own_name, proto_text
from holdfast.tasks.registered.proto.files import ProtoError, ProtoFile, ProtoMessage
from holdfast.tasks.registered.proto.framing import header, indexes_at
from holdfast.tasks.registered.proto.parse import parse_proto
from holdfast.tasks.registered.proto.write import MessageWriter
from holdfast.tasks.registered.shared import ENCODERS_MAX, id_of, without_columns
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import DataSchema, Schema, SchemaKind
from holdfast.types.statements.sources import Format, Nullable

__all__ = ["Protobuf"]


class Protobuf:
    """See `Language`."""

    unwraps = False
    inherits_name = True

    def columns_of(
        self, schema: Schema, full_name: str, *, unwrapped: bool, key: bool, exact: bool = False
    ) -> tuple[Column, ...]:
        try:
            file = parse_proto(schema.text, schema.references)
            found = columns_of(file, _message(file, full_name), exact=exact)
        except ProtoError as error:
            raise _unreadable(error, schema) from None
        if not found:
            raise without_columns(schema.text[:300])
        return found

    def full_names(self, schema: Schema) -> Sequence[str]:
        try:
            return parse_proto(schema.text, schema.references).top
        except ProtoError as error:
            raise _unreadable(error, schema) from None

    def name_in(self, schema: Schema, data: bytes) -> str:
        try:
            indexes, _ = indexes_at(data, 0)
            return parse_proto(schema.text, schema.references).at(indexes).name
        except ProtoError as error:
            raise _unreadable(error, schema) from None

    def schema_of(
        self, columns: Sequence[Column], full_name: str, *, unwrapped: bool,
        nullable: Nullable = Nullable.NONE,
    ) -> Schema:  # fmt: skip
        try:
            text = proto_text(file_of(columns, nullable, full_name))
        except ProtoError as error:
            raise SchemaRefused(
                f"The columns cannot be Protobuf: {error}.", action="use another format"
            ) from None
        return Schema(SchemaKind.PROTOBUF, text)

    def encode(
        self, columns: Sequence[Column], arrays: Sequence[pa.Array], data: DataSchema | None,
        *, unwrapped: bool,
    ) -> Sequence[bytes | None]:  # fmt: skip
        written = id_of(data, Format.PROTOBUF)
        try:
            head, writer = _writer(written, tuple(columns))
            messages = writer.write(arrays)
        except ProtoError as error:
            fact = f"The columns do not fit schema {written.id}: {error}."
            raise _refused(fact, written.schema) from None
        return [head + message for message in messages.to_pylist()]


@lru_cache(ENCODERS_MAX)
def _writer(data: DataSchema, columns: tuple[Column, ...]) -> tuple[bytes, MessageWriter]:
    """The bytes before every message, and the writer of messages."""
    schema = data.schema
    if schema.kind is not SchemaKind.PROTOBUF:
        raise ProtoError(f"it is of type {schema.kind}")
    file = parse_proto(schema.text, schema.references)
    message = _message(file, data.full_name)
    head = header(data.id or 0, file.indexes(message.name))
    return head, MessageWriter(file, message, columns)


def _message(file: ProtoFile, full_name: str) -> ProtoMessage:
    """The message of that name; the first one where ksqlDB would ignore the name."""
    if full_name not in file.messages and own_name(full_name):
        return file.named("")
    try:
        return file.named(full_name)
    except ProtoError as error:
        raise SchemaMissing(f"The schema has another name: {error}.") from None


def _unreadable(error: ProtoError, schema: Schema) -> SchemaRefused:
    return _refused(f"The schema cannot be read: {error}.", schema)


def _refused(fact: str, schema: Schema) -> SchemaRefused:
    return SchemaRefused(fact, cause=f"it is {schema.text[:300]}")
