"""The one home of the key layout: state keys, sink keys, windowed keys.

A *state key* is what the shuffle hashes, what the store and the changelog are keyed by:

    one STRING column         its UTF-8 bytes
    one INTEGER or BIGINT     4 or 8 bytes, big-endian
    anything else             JSON object of k0, k1 …, times as numbers, decimals as text

A windowed state key is the state key and the window's start in ms, 8 bytes big-endian, which is
also how Kafka Streams' TimeWindowedSerializer lays out the keys of a windowed sink topic.
A record whose key has a null part has no state key and is dropped, as in ksqlDB.
"""

from __future__ import annotations

import base64
import decimal
import struct
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

from holdfast.tasks.values import delimited, json_objects, json_ready
from holdfast.types.schema import Base, Column
from holdfast.types.topology import Format, KeyExpression

__all__ = ["decode_keys", "encode_keys", "sink_keys", "split_window", "state_key_sql", "window_key"]

_WINDOW = struct.Struct(">q")
_NUMBERS = {Base.INTEGER: struct.Struct(">i"), Base.BIGINT: struct.Struct(">q")}


def state_key_sql(keys: Sequence[KeyExpression]) -> str:
    """Spark SQL that makes the state key (BINARY, null when a part is null)."""
    if len(keys) == 1 and keys[0].column.type.base in (Base.STRING, *_NUMBERS):
        return f"CAST({keys[0].spark} AS BINARY)"
    parts = ", ".join(f"{_jsonable(k)} AS k{i}" for i, k in enumerate(keys))
    present = " AND ".join(f"({k.spark}) IS NOT NULL" for k in keys)
    return f"CASE WHEN {present} THEN CAST(to_json(struct({parts})) AS BINARY) END"


def _jsonable(key: KeyExpression) -> str:
    conversions = {
        Base.DECIMAL: "CAST({} AS STRING)",
        Base.BYTES: "base64({})",
        Base.DATE: "unix_date({})",
        Base.TIMESTAMP: "unix_micros({})",
    }
    return conversions.get(key.column.type.base, "{}").format(key.spark)


def window_key(key: bytes, start_ms: int) -> bytes:
    """The windowed state key of `key` in the window that starts at `start_ms`."""
    return key + _WINDOW.pack(start_ms)


def split_window(keys: Sequence[bytes]) -> tuple[list[bytes], list[int]]:
    """(state keys without window, window starts in ms)."""
    return [k[:-8] for k in keys], [_WINDOW.unpack(k[-8:])[0] for k in keys]


def decode_keys(keys: Sequence[bytes], columns: Sequence[Column]) -> list[pa.Array]:
    """The key columns of plain (not windowed) state keys, as Arrow arrays."""
    first = columns[0]
    if len(columns) == 1 and first.type.base is Base.STRING:
        return [pa.array(keys, pa.binary()).cast(pa.string())]
    if len(columns) == 1 and first.type.base in _NUMBERS:
        unpack = _NUMBERS[first.type.base].unpack
        return [pa.array([unpack(k)[0] for k in keys], first.type.arrow())]
    rows = [orjson.loads(k) for k in keys]
    return [_key_array([r.get(f"k{i}") for r in rows], c) for i, c in enumerate(columns)]


def _key_array(values: list[Any], column: Column) -> pa.Array:
    kind = column.type.arrow()
    if column.type.base is Base.DATE:
        return pa.array(values, pa.int32()).cast(kind)
    if column.type.base is Base.TIMESTAMP:
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array([_from_json(v, column.type.base) for v in values], kind)


def _from_json(value: Any, base: Base) -> Any:
    if base is Base.DECIMAL:
        return decimal.Decimal(value)
    if base is Base.BYTES:
        return base64.b64decode(value)
    return value


def sink_keys(
    keys: Sequence[bytes], columns: Sequence[Column], arrays: Sequence[pa.Array], form: Format
) -> list[bytes]:
    """Record keys of the sink topic for plain state keys, in the sink's key format."""
    one = columns[0].type.base if len(columns) == 1 else None
    if form is Format.KAFKA and one in (Base.STRING, Base.INTEGER, Base.BIGINT):
        return list(keys)
    return encode_keys(columns, arrays, form)


def encode_keys(columns: Sequence[Column], arrays: Sequence[pa.Array], form: Format) -> list[bytes]:
    """Record keys from key columns; a row whose every part is null gets an empty key."""
    if form is Format.JSON and len(columns) > 1:
        return json_objects(columns, arrays)
    lists = [json_ready(a, c.type) for a, c in zip(arrays, columns, strict=True)]
    if form is Format.JSON:
        return [orjson.dumps(v) for v in lists[0]]
    if form is Format.DELIMITED:
        return [",".join(delimited(v) for v in r).encode() for r in zip(*lists, strict=True)]
    return [_kafka(v, columns[0].type.base) for v in lists[0]]


def _kafka(value: Any, base: Base) -> bytes:
    if value is None:
        return b""
    if base is Base.DOUBLE:
        return struct.pack(">d", value)
    if base in _NUMBERS:
        return _NUMBERS[base].pack(value)
    return value if isinstance(value, bytes) else str(value).encode()
