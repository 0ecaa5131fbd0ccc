"""Sink values as bytes, the way ksqlDB's JSON, DELIMITED and KAFKA formats write them."""

from __future__ import annotations

import base64
import decimal
import math
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.as_numbers import as_numbers
from holdfast.tasks.evaluate.plain_text import delimited_rows, kafka_bytes
from holdfast.tasks.registered.language import LANGUAGES, encode_registered
from holdfast.tasks.registered.messages import written_messages
from holdfast.types.column_pieces import Lazy
from holdfast.types.schema import Base, Column, SqlType
from holdfast.types.schemas import DataSchema
from holdfast.types.sources import Format, Nullable

__all__ = ["encode_single", "encode_values", "json_objects", "json_ready", "text_ready"]

_DIRECT = (Base.BOOLEAN, Base.INTEGER, Base.BIGINT, Base.STRING, Base.DATE, Base.TIME)
# Arrow writes these as JSON does.
_AS_TEXT = (Base.BOOLEAN, Base.INTEGER, Base.BIGINT)
_ESCAPED = r'["\\\x00-\x1f]'


def json_ready(column: pa.Array, kind: SqlType) -> list[Any]:
    """Python values that orjson writes as ksqlDB does: DATE in days, TIMESTAMP in ms."""
    values = text_ready(column, kind)
    if kind.base is Base.DECIMAL:
        return [None if v is None else orjson.Fragment(v) for v in values]
    return values


def text_ready(column: pa.Array, kind: SqlType) -> list[Any]:
    """The same for text formats: a DECIMAL becomes its digits."""
    values: list[Any] = as_numbers(column).to_pylist()
    if kind.base is Base.DECIMAL:
        return [None if v is None else format(v, "f") for v in values]
    if kind.base in _DIRECT or (kind.base is Base.DOUBLE and _finite(column)):
        return values
    return [_ready(v, kind) for v in values]


def _finite(column: pa.Array) -> bool:
    return pc.all(pc.is_finite(column)).as_py() in (True, None)


def _ready(value: Any, kind: SqlType) -> Any:  # noqa: PLR0911 - one line per type
    if value is None or kind.base in _DIRECT:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _named(value)
    if isinstance(value, decimal.Decimal):
        return orjson.Fragment(format(value, "f"))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if kind.base is Base.TIMESTAMP:
        return value // 1000
    if kind.base is Base.ARRAY and kind.element is not None:
        return [_ready(v, kind.element) for v in value]
    if kind.base is Base.MAP and kind.element is not None:
        return {_map_key(k, kind.map_key): _ready(v, kind.element) for k, v in value}
    return {f.name: _ready(value[f.name], f.type) for f in kind.fields}


def _named(value: float) -> str:
    # Jackson writes doubles that are not JSON numbers as text.
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _map_key(key: Any, kind: SqlType) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return format(key, "f") if isinstance(key, decimal.Decimal) else str(_ready(key, kind))


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


def json_objects(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> Lazy[bytes]:
    """One JSON object per row, built in Arrow: ten times as fast as a dict per row."""
    parts: list[pa.Array | str] = []
    for column, array in zip(columns, arrays, strict=True):
        name = orjson.dumps(column.name).decode()
        parts += [f"{',' if parts else '{'}{name}:", _json_texts(array, column.type)]
    return Lazy(pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary()))


def _json_texts(column: pa.Array, kind: SqlType) -> pa.Array:
    """Each value as JSON text."""
    if kind.base in _AS_TEXT:
        return pc.fill_null(column.cast(pa.string()), "null")
    if kind.base is Base.STRING and not pc.any(pc.match_substring_regex(column, _ESCAPED)).as_py():
        return pc.fill_null(pc.binary_join_element_wise('"', column, '"', ""), "null")
    dumps = orjson.dumps
    return pa.array([dumps(v) for v in json_ready(column, kind)], pa.binary()).cast(pa.string())
