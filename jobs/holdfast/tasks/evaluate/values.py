"""Sink values as bytes, the way ksqlDB's JSON, DELIMITED and KAFKA formats write them."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pyarrow as pa

from holdfast.tasks.evaluate.json_values import json_objects, json_ready, text_ready
from holdfast.tasks.evaluate.plain_text import delimited_rows, kafka_bytes
from holdfast.tasks.registered.language import LANGUAGES, encode_registered
from holdfast.tasks.registered.messages import written_messages
from holdfast.types.columns.pieces import Lazy
from holdfast.types.columns.schema import Base, Column
from holdfast.types.columns.schemas import DataSchema
from holdfast.types.statements.sources import Format, Nullable

__all__ = ["encode_single", "encode_values"]


def encode_values(
    columns: Sequence[Column],
    arrays: Sequence[pa.Array],
    form: Format,
    *,
    wrap: bool = True,
    delimiter: str = ",",
    nullable: Nullable = Nullable.NONE,
    schema: DataSchema | None = None,
) -> Sequence[bytes | None]:
    """One record value per row, in the sink's value format.

    Args:
        wrap: write a single JSON column as an object (WRAP_SINGLE_VALUE).
        delimiter: the delimiter of DELIMITED.
        nullable: how Protobuf tells NULL.
        schema: the registered schema of the formats that have one.

    A row whose single unwrapped column is NULL is None, a tombstone.
    """
    if form is Format.NONE or not columns:
        return [None] * (len(arrays[0]) if arrays else 0)
    if form is Format.PROTOBUF_NOSR:
        return Lazy(written_messages(columns, arrays, nullable))
    if form is Format.JSON and (wrap or len(columns) > 1):
        return json_objects(columns, arrays)
    if form in LANGUAGES:
        unwrapped = not wrap and len(columns) == 1
        return encode_registered(form, columns, arrays, schema, unwrapped=unwrapped)
    if form is Format.DELIMITED:
        lists = [text_ready(a, c.type) for a, c in zip(arrays, columns, strict=True)]
        return list(delimited_rows(lists, delimiter))
    return encode_single(columns[0], arrays[0], form)


def encode_single(column: Column, array: pa.Array, form: Format) -> list[bytes | None]:
    """One column without an object around it, in JSON or KAFKA; None for NULL."""
    if form is Format.KAFKA and column.type.base is Base.STRING:
        texts: list[bytes | None] = array.cast(pa.binary()).to_pylist()
        return texts
    if form is Format.KAFKA:
        return [kafka_bytes(v, column.type.base) for v in array.to_pylist()]
    ready = json_ready(array, column.type)
    return [None if v is None else orjson.dumps(v) for v in ready]
