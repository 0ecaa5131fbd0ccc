"""Rows as Protobuf messages of their own columns: PROTOBUF_NOSR, without a schema registry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from holdfast.errors import SchemaRefused, Unsupported
from holdfast.tasks.registered.proto.columns import file_of
from holdfast.tasks.registered.proto.files import ProtoError
from holdfast.tasks.registered.proto.read import MessageReader
from holdfast.tasks.registered.proto.write import MessageWriter
from holdfast.types.columns.schema import Column
from holdfast.types.statements.sources import Nullable

__all__ = ["message_reader", "written_messages"]

_KEPT = 1_000  # readers and writers of so many lists of columns


@lru_cache(_KEPT)
def message_reader(
    declared: tuple[Column, ...], wanted: tuple[Column, ...], nullable: Nullable
) -> MessageReader:
    """Reads some columns of messages that are laid out by all declared ones.

    Raises:
        Unsupported: Protobuf cannot hold the declared columns.
    """
    try:
        file = file_of(declared, nullable)
        return MessageReader(file, file.named(""), wanted, nullable)
    except ProtoError as error:
        raise _unsupported(error) from None


def written_messages(
    columns: Sequence[Column], arrays: Sequence[pa.Array], nullable: Nullable
) -> pa.Array:
    """A BINARY array with a message per row.

    Raises:
        Unsupported: Protobuf cannot hold the columns.
        SchemaRefused: it cannot hold one of the values.
    """
    writer = _writer(tuple(columns), nullable)
    try:
        return writer.write(arrays)
    except ProtoError as error:
        raise SchemaRefused(f"The columns cannot be written as Protobuf: {error}.") from None


@lru_cache(_KEPT)
def _writer(columns: tuple[Column, ...], nullable: Nullable) -> MessageWriter:
    try:
        file = file_of(columns, nullable)
        return MessageWriter(file, file.named(""), columns)
    except ProtoError as error:
        raise _unsupported(error) from None


def _unsupported(error: ProtoError) -> Unsupported:
    return Unsupported(f"The columns cannot be Protobuf: {error}.", action="use another format.")
