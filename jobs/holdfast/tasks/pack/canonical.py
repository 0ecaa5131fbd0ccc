"""Values as bytes that are equal exactly where Java's values are equal.

    INTEGER, BIGINT, DATE, TIME, TIMESTAMP    8 bytes, big-endian
    DOUBLE                                    its rank (`tasks.evaluate.doubles`), 8 bytes
    BOOLEAN                                   1 byte
    STRING, BYTES                             their bytes; DECIMAL its text
    ARRAY, MAP, STRUCT                        msgpack, a MAP's entries in order of their bytes

before them 0x00.  Of more than `_PLAIN_MAX` bytes only the SHA-256 is kept, after 0x01.
"""

from __future__ import annotations

import decimal
import hashlib
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.as_numbers import as_numbers
from holdfast.tasks.evaluate.doubles import rank, ranks
from holdfast.types.columns.byte_columns import fixed

__all__ = ["canonical_bytes"]

_PLAIN_MAX = 96
_PLAIN, _DIGEST = b"\x00", b"\x01"


def canonical_bytes(values: pa.Array) -> pa.Array:
    """The bytes of each value, as BINARY; there must be no nulls."""
    encoded = _encoded(as_numbers(values))
    if (pc.max(pc.binary_length(encoded)).as_py() or 0) <= _PLAIN_MAX:
        return pc.binary_join_element_wise(_PLAIN, encoded, b"")
    return pa.array(map(_short, encoded.to_pylist()), pa.binary())


def _short(data: bytes) -> bytes:
    if len(data) <= _PLAIN_MAX:
        return _PLAIN + data
    return _DIGEST + hashlib.sha256(data).digest()


def _encoded(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_integer(kind):
        return fixed(values.to_numpy(zero_copy_only=False).astype(">i8"))
    if pa.types.is_floating(kind):
        return fixed(ranks(values.to_numpy(zero_copy_only=False)).astype(">i8"))
    if pa.types.is_boolean(kind):
        return fixed(values.to_numpy(zero_copy_only=False).astype(np.uint8))
    if pa.types.is_nested(kind):
        trees = (_tree(value, kind) for value in values.to_pylist())
        return pa.array(map(msgpack.packb, trees), pa.binary())
    return (values.cast(pa.string()) if pa.types.is_decimal(kind) else values).cast(pa.binary())


def _tree(value: Any, kind: pa.DataType) -> Any:
    """A value that msgpack writes alike wherever it is equal."""
    if pa.types.is_map(kind):
        pairs = ((_tree(k, kind.key_type), _tree(v, kind.item_type)) for k, v in value or ())
        return None if value is None else sorted(map(msgpack.packb, pairs))
    if pa.types.is_list(kind):
        return None if value is None else [_tree(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        return None if value is None else [_tree(value[f.name], f.type) for f in kind]
    if isinstance(value, float):
        return rank(value)
    return str(value) if isinstance(value, decimal.Decimal) else value
