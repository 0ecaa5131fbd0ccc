"""Serialization formats: one contract (`Decoder`), one file per format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from holdfast.errors import RegistryUnavailable
from holdfast.ingest.formats.avro.decoder import avro_reader
from holdfast.ingest.formats.base import Decoded, Decoder
from holdfast.ingest.formats.delimited import DelimitedDecoder
from holdfast.ingest.formats.json.decoder import JsonDecoder
from holdfast.ingest.formats.json.registered import json_reader
from holdfast.ingest.formats.kafka import KafkaDecoder
from holdfast.ingest.formats.none import NoneDecoder
from holdfast.ingest.formats.protobuf import MessageDecoder
from holdfast.ingest.formats.protobuf_registered import protobuf_reader
from holdfast.ingest.formats.registered import MakeReader, RegisteredDecoder
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import START_REGISTRY, DataSchema, Schemas
from holdfast.types.statements.sources import Format, Nullable

__all__ = ["Decoded", "Decoder", "key_decoder", "value_decoder"]

_Readers: TypeAlias = Callable[[Sequence[Column], bool], MakeReader]
# (wanted columns, unwrapped) -> the function that makes the reader of one schema.
_READERS: Mapping[Format, _Readers] = {
    Format.AVRO: avro_reader,  # also takes the columns' own schema
    Format.JSON_SR: json_reader,
}


def value_decoder(  # noqa: PLR0913 - each is another fact of a source
    format_: Format,
    declared: Sequence[Column],
    wanted: Sequence[Column],
    *,
    wrap: bool = True,
    delimiter: str = ",",
    nullable: Nullable = Nullable.NONE,
    schemas: Schemas | None = None,
    own: DataSchema | None = None,
) -> Decoder:
    """The decoder of record values.

    Args:
        declared: all value columns of the source, in order.
        wanted: the columns to decode, in the order of the result.
        wrap: a single JSON column is inside an object (WRAP_SINGLE_VALUE).
        delimiter: the delimiter of DELIMITED.
        nullable: how Protobuf tells NULL.
        schemas: the registry of formats that have one.
        own: the schema of the declared columns, in such a format.

    Raises:
        Unsupported: the format cannot hold the declared columns.
        RegistryUnavailable: the format has a registry, and there is none.
    """
    if format_ is Format.PROTOBUF_NOSR:
        return MessageDecoder(declared, wanted, nullable)
    unwrapped = not wrap and len(declared) == 1
    if format_.schema_kind:
        return _registered(format_, wanted, schemas, own, unwrapped=unwrapped, nullable=nullable)
    return _decoder(format_, declared, wanted, delimiter, unwrapped=unwrapped)


def key_decoder(
    format_: Format,
    declared: Sequence[Column],
    wanted: Sequence[Column],
    delimiter: str = ",",
    nullable: Nullable = Nullable.NONE,
    schemas: Schemas | None = None,
    own: DataSchema | None = None,
) -> Decoder:
    """The decoder of record keys: like `value_decoder`, but a single JSON column has no object.

    Raises:
        Unsupported: the format cannot hold the declared columns.
        RegistryUnavailable: the format has a registry, and there is none.
    """
    if format_ is Format.PROTOBUF_NOSR and declared:
        return MessageDecoder(declared, wanted, nullable)
    if format_.schema_kind:
        unwrapped = len(declared) == 1 and LANGUAGES[format_].unwraps
        return _registered(format_, wanted, schemas, own, unwrapped=unwrapped, nullable=nullable)
    return _decoder(format_, declared, wanted, delimiter, unwrapped=len(declared) == 1)


def _registered(
    format_: Format,
    wanted: Sequence[Column],
    schemas: Schemas | None,
    own: DataSchema | None,
    *,
    unwrapped: bool,
    nullable: Nullable,
) -> Decoder:
    kind = format_.schema_kind
    assert kind is not None
    if not wanted:
        return NoneDecoder(wanted)
    if schemas is None:
        raise RegistryUnavailable(
            f"{format_} needs a schema registry, and there is none.",
            action=f"set schema.registry.url, or {START_REGISTRY}",
        )
    return RegisteredDecoder(
        kind, wanted, schemas, _maker(format_, wanted, own, unwrapped=unwrapped, nullable=nullable)
    )


def _maker(
    format_: Format,
    wanted: Sequence[Column],
    own: DataSchema | None,
    *,
    unwrapped: bool,
    nullable: Nullable,
) -> MakeReader:
    if format_ is Format.PROTOBUF:
        return protobuf_reader(wanted, nullable)
    if format_ is Format.AVRO and own is not None:
        return avro_reader(wanted, unwrapped, own.schema)
    return _READERS[format_](wanted, unwrapped)


def _decoder(
    format_: Format,
    declared: Sequence[Column],
    wanted: Sequence[Column],
    delimiter: str,
    *,
    unwrapped: bool,
) -> Decoder:
    if format_ is Format.JSON:
        return JsonDecoder(wanted, unwrapped=unwrapped)
    if format_ is Format.KAFKA:
        return KafkaDecoder(declared, wanted)
    if format_ is Format.DELIMITED:
        return DelimitedDecoder(declared, wanted, delimiter)
    return NoneDecoder(wanted)
