"""The layout of keys: state keys, sink keys, windowed keys.

A *state key* is hashed by the shuffle, and is the key in the store and the changelog:

    one STRING column         its UTF-8 bytes
    one INTEGER or BIGINT     4 or 8 bytes, big-endian
    other columns             JSON object of k0, k1 …, times as numbers, decimals as text

A windowed state key is the state key and the window's start in ms, 8 bytes big-endian, like the
keys that Kafka Streams' TimeWindowedSerializer writes to a windowed sink topic.  In the topic of a
session table a key is followed by the session's end and then by its start.
A record with a null key column has no state key and is dropped, as in ksqlDB; only a table's row
may have a primary key with some null columns.
"""

from __future__ import annotations

import base64
import decimal
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.as_numbers import from_numbers
from holdfast.tasks.evaluate.json_values import json_objects, text_ready
from holdfast.tasks.evaluate.plain_text import delimited_rows
from holdfast.tasks.evaluate.values import encode_single
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.tasks.registered.messages import written_messages
from holdfast.types.columns.byte_columns import block, fixed, joined
from holdfast.types.columns.pieces import as_array
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.columns.schemas import DataSchema
from holdfast.types.statements.sources import Format, Nullable, Sink, WindowKind

__all__ = [
    "decode_keys",
    "encode_keys",
    "first_measured",
    "keeps_state_keys",
    "measured",
    "measured_all",
    "numbered",
    "session_key",
    "session_keys",
    "sink_keys",
    "split_window",
    "split_windowed",
    "unmeasured",
    "window_key",
    "window_keys",
    "windowed_array",
]

_WINDOW = struct.Struct(">q")
_LENGTH = struct.Struct(">I")
_SESSION = struct.Struct(">qq")  # end, start
_BOUNDS = [("end", ">i8"), ("start", ">i8")]
_NUMBERS = {Base.INTEGER: struct.Struct(">i"), Base.BIGINT: struct.Struct(">q")}


def measured(key: bytes) -> bytes:
    """The state key prefixed with its length: a scan of this prefix finds no other key."""
    return _LENGTH.pack(len(key)) + key


def measured_all(keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Lengths and keys of a BINARY array; joined, each pair equals `measured`."""
    return fixed(pc.binary_length(keys).to_numpy(zero_copy_only=False).astype(">u4")), keys


def numbered(keys: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The distinct keys of a BINARY array, and the place of each row's key among them.

    Ordered by length, then bytewise, like `measured` keys in a store.
    """
    encoded = keys.dictionary_encode()
    order = _by_length(encoded.dictionary)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    numbers = encoded.indices.to_numpy(zero_copy_only=False)
    return encoded.dictionary.take(pa.array(order)), rank[numbers]


def _by_length(keys: pa.Array) -> npt.NDArray[np.uint64 | np.int64]:
    """Places of distinct keys, by length and then bytewise."""
    rows = block(keys)
    if rows is not None:  # numpy sorts texts of one length in half the time
        return rows.view(f"S{rows.shape[1]}").ravel().argsort(kind="stable")
    found = pa.table({"length": pc.binary_length(keys), "key": keys})
    by_length = [("length", "ascending"), ("key", "ascending")]
    order: npt.NDArray[np.uint64] = pc.sort_indices(found, by_length).to_numpy()
    return order


def unmeasured(data: bytes) -> bytes:
    """The inverse of `measured`."""
    return data[_LENGTH.size :]


def first_measured(data: bytes) -> bytes:
    """The key with whose `measured` form the data begins."""
    (size,) = _LENGTH.unpack_from(data)
    return data[_LENGTH.size : _LENGTH.size + size]


def window_key(key: bytes, start_ms: int) -> bytes:
    """The windowed state key of `key` in the window that starts at `start_ms`."""
    return key + _WINDOW.pack(start_ms)


def window_keys(keys: pa.Array, starts_ms: Sequence[int] | npt.NDArray[np.int64]) -> list[bytes]:
    """`window_key` for each row of a BINARY array without nulls."""
    return joined(keys, fixed(np.asarray(starts_ms, ">i8")))


def windowed_array(keys: pa.Array, starts_ms: npt.NDArray[np.int64]) -> pa.Array:
    """`window_keys` as an array."""
    return pc.binary_join_element_wise(keys, fixed(starts_ms.astype(">i8")), b"")


def split_window(keys: Sequence[bytes]) -> tuple[list[bytes], list[int]]:
    """(state keys without window, window starts in ms)."""
    return [k[:-8] for k in keys], [_WINDOW.unpack(k[-8:])[0] for k in keys]


def session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    """A record key of a session table: Kafka Streams' SessionWindowedSerializer."""
    return key + _SESSION.pack(end_ms, start_ms)


def session_keys(keys: Sequence[bytes], starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
    """`session_key` for each row."""
    bounds = np.empty(len(keys), _BOUNDS)
    bounds["end"], bounds["start"] = ends, starts
    return joined(pa.array(keys, pa.binary()), fixed(bounds))


def split_windowed(key: bytes, kind: WindowKind, size_ms: int) -> tuple[bytes, int, int]:
    """(key, window start, window end in ms) of a record key of a windowed topic.

    Raises:
        ValueError: the key is shorter than its window part.
    """
    width = _SESSION.size if kind is WindowKind.SESSION else _WINDOW.size
    if len(key) < width:
        raise ValueError(f"{len(key)} bytes, but a {kind} window alone takes {width}")
    if kind is WindowKind.SESSION:
        end, start = _SESSION.unpack(key[-width:])
        return key[:-width], start, end
    (start,) = _WINDOW.unpack(key[-width:])
    return key[:-width], start, start + size_ms


def decode_keys(keys: Sequence[bytes], columns: Sequence[Column]) -> list[pa.Array]:
    """The key columns of plain (not windowed) state keys, as Arrow arrays."""
    first = columns[0]
    if len(columns) == 1 and first.type.base is Base.STRING:
        return [as_array(keys, pa.binary()).cast(pa.string())]
    if len(columns) == 1 and first.type.base in _NUMBERS:
        unpack = _NUMBERS[first.type.base].unpack
        return [pa.array([unpack(k)[0] for k in keys], first.type.arrow())]
    rows = [orjson.loads(k) for k in keys]
    return [_key_array([r.get(f"k{i}") for r in rows], c) for i, c in enumerate(columns)]


def _key_array(values: list[Any], column: Column) -> pa.Array:
    return from_numbers([_from_json(v, column.type) for v in values], column.type.arrow())


def _from_json(value: Any, kind: SqlType) -> Any:  # noqa: PLR0911 - one line per type
    if value is None:
        return None
    if kind.base is Base.DECIMAL:
        return decimal.Decimal(value)
    if kind.base is Base.BYTES:
        return base64.b64decode(value)
    if kind.base is Base.DOUBLE:
        return float(value)
    if kind.base is Base.ARRAY and kind.element is not None:
        return [_from_json(v, kind.element) for v in value]
    if kind.base is Base.STRUCT:
        return {f.name: _from_json(value.get(f.name), f.type) for f in kind.fields}
    return value


def keeps_state_keys(columns: Sequence[Column], form: Format) -> bool:
    """Whether a record key in that format equals the state key."""
    one = columns[0].type.base if len(columns) == 1 else None
    return form is Format.KAFKA and one in (Base.STRING, Base.INTEGER, Base.BIGINT)


def sink_keys(keys: Sequence[bytes], arrays: Sequence[pa.Array], sink: Sink) -> list[bytes]:
    """Record keys of the sink topic for plain state keys, in the sink's key format."""
    columns, form = sink.key_columns, sink.key_format
    if keeps_state_keys(columns, form):
        return list(keys)
    encoded = encode_keys(
        columns,
        arrays,
        form,
        sink.key_delimiter,
        nullable=sink.key_nullable,
        schema=sink.key_schema,
    )
    return [k or b"" for k in encoded]  # no part of a state key is null


def encode_keys(
    columns: Sequence[Column],
    arrays: Sequence[pa.Array],
    form: Format,
    delimiter: str = ",",
    *,
    always: bool = False,
    nullable: Nullable = Nullable.NONE,
    schema: DataSchema | None = None,
) -> list[bytes | None]:
    """Record keys from key columns; `schema`: the registered one of formats that have one.

    A row whose key columns are all null has no key, unless there are several and `always` is set.
    """
    if form is Format.NONE or not columns:
        return [None] * (len(arrays[0]) if arrays else 0)
    encoded: Sequence[bytes | None]
    language = LANGUAGES.get(form)
    if len(columns) == 1 and language is not None and language.unwraps:
        return list(language.encode(columns, arrays, schema, unwrapped=True))
    plain = language is None and form not in (Format.DELIMITED, Format.PROTOBUF_NOSR)
    if len(columns) == 1 and plain:
        return encode_single(columns[0], arrays[0], form)
    if language is not None:
        encoded = language.encode(columns, arrays, schema, unwrapped=False)
    elif form is Format.PROTOBUF_NOSR:
        encoded = written_messages(columns, arrays, nullable).to_pylist()
    elif form is Format.JSON:
        encoded = json_objects(columns, arrays)
    else:
        ready = [text_ready(a, c.type) for a, c in zip(arrays, columns, strict=True)]
        encoded = delimited_rows(ready, delimiter)
    if always and len(columns) > 1:
        return list(encoded)
    parts = zip(*(a.is_valid().to_pylist() for a in arrays), strict=True)
    return [k if any(there) else None for k, there in zip(encoded, parts, strict=True)]
