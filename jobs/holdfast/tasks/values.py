"""Sink values as bytes, the way ksqlDB's JSON and DELIMITED formats write them."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.types.schema import Base, Column, SqlType
from holdfast.types.topology import Format

__all__ = ["delimited", "encode_values", "json_objects", "json_ready"]

_DIRECT = (Base.BOOLEAN, Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.STRING, Base.TIME)
# Arrow writes these as JSON does.
_AS_TEXT = (Base.BOOLEAN, Base.INTEGER, Base.BIGINT)
_ESCAPED = r'["\\\x00-\x1f]'
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)


def json_ready(column: pa.Array, kind: SqlType) -> list[Any]:
    """Python values that orjson writes as ksqlDB does: DATE in days, TIMESTAMP in ms."""
    if kind.base is Base.DATE:  # as numbers: Arrow's times reach further than Python's
        column = column.cast(pa.int32())
    elif kind.base is Base.TIMESTAMP:
        column = column.cast(pa.int64())
        return [None if micros is None else micros // 1000 for micros in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    if kind.base in (*_DIRECT, Base.DATE):
        return values
    return [_ready(v, kind) for v in values]


def _ready(value: Any, kind: SqlType) -> Any:  # noqa: PLR0911 - one line per type
    if value is None or kind.base in _DIRECT:
        return value
    if isinstance(value, decimal.Decimal):
        return orjson.Fragment(format(value, "f"))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // _MS
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days
    if kind.base is Base.ARRAY and kind.element is not None:
        return [_ready(v, kind.element) for v in value]
    if kind.base is Base.MAP and kind.element is not None:
        return {k: _ready(v, kind.element) for k, v in value}
    return {f.name: _ready(value[f.name], f.type) for f in kind.fields}


def encode_values(
    columns: Sequence[Column], arrays: Sequence[pa.Array], form: Format
) -> list[bytes]:
    """One record value per row, in the sink's value format."""
    if form is not Format.DELIMITED:
        return json_objects(columns, arrays)
    lists = [json_ready(a, c.type) for a, c in zip(arrays, columns, strict=True)]
    rows = zip(*lists, strict=True)
    return [",".join(delimited(v) for v in r).encode() for r in rows]


def json_objects(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> list[bytes]:
    """One JSON object per row; put together in Arrow, ten times as fast as a dict per row."""
    parts: list[pa.Array | str] = []
    for column, array in zip(columns, arrays, strict=True):
        name = orjson.dumps(column.name).decode()
        parts += [f"{',' if parts else '{'}{name}:", _json_texts(array, column.type)]
    joined = pc.binary_join_element_wise(*parts, "}", "")
    objects: list[bytes] = joined.cast(pa.binary()).to_pylist()
    return objects


def _json_texts(column: pa.Array, kind: SqlType) -> pa.Array:
    """Each value as JSON text."""
    if kind.base in _AS_TEXT:
        return pc.fill_null(column.cast(pa.string()), "null")
    if kind.base is Base.STRING and not pc.any(pc.match_substring_regex(column, _ESCAPED)).as_py():
        return pc.fill_null(pc.binary_join_element_wise('"', column, '"', ""), "null")
    dumps = orjson.dumps
    return pa.array([dumps(v) for v in json_ready(column, kind)], pa.binary()).cast(pa.string())


def delimited(value: Any) -> str:
    """One field of a DELIMITED row, quoted where it must be."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, orjson.Fragment):
        return str(value.contents)
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n') else text
