"""Serialization formats: one contract (`Decoder`), one file per format."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.ingest.formats.base import Decoded, Decoder
from holdfast.ingest.formats.delimited import DelimitedDecoder
from holdfast.ingest.formats.json import JsonDecoder
from holdfast.ingest.formats.kafka import KafkaDecoder
from holdfast.ingest.formats.none import NoneDecoder
from holdfast.ingest.formats.protobuf import MessageDecoder
from holdfast.types.schema import Column
from holdfast.types.sources import Format, Nullable

__all__ = ["Decoded", "Decoder", "key_decoder", "value_decoder"]


def value_decoder(
    format_: Format,
    declared: Sequence[Column],
    wanted: Sequence[Column],
    *,
    wrap: bool = True,
    delimiter: str = ",",
    nullable: Nullable = Nullable.NONE,
) -> Decoder:
    """The decoder of record values.

    Args:
        declared: all value columns of the source, in order.
        wanted: the columns to decode, in the order of the result.
        wrap: a single JSON column is inside an object (WRAP_SINGLE_VALUE).
        delimiter: the delimiter of DELIMITED.
        nullable: how Protobuf tells NULL.

    Raises:
        Unsupported: the format cannot hold the declared columns.
    """
    if format_ is Format.PROTOBUF_NOSR:
        return MessageDecoder(declared, wanted, nullable)
    unwrapped = not wrap and len(declared) == 1
    return _decoder(format_, declared, wanted, delimiter, unwrapped=unwrapped)


def key_decoder(
    format_: Format,
    declared: Sequence[Column],
    wanted: Sequence[Column],
    delimiter: str = ",",
    nullable: Nullable = Nullable.NONE,
) -> Decoder:
    """The decoder of record keys: like `value_decoder`, but a single JSON column has no object.

    Raises:
        Unsupported: the format cannot hold the declared columns.
    """
    if format_ is Format.PROTOBUF_NOSR and declared:
        return MessageDecoder(declared, wanted, nullable)
    return _decoder(format_, declared, wanted, delimiter, unwrapped=len(declared) == 1)


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
