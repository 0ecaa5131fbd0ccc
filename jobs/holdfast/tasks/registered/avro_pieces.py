"""Bytes of Avro values, for a whole column at once; each function returns a BINARY array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["binary", "constant", "decimals", "followed", "grouped", "varints"]

_DECIMAL_BYTES = 16


def constant(value: bytes) -> pa.Scalar:
    """The same bytes in every row."""
    return pa.scalar(value, pa.binary())


def varints(values: npt.NDArray[np.int64]) -> pa.Array:
    """Zigzag varints, the shortest form of each."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    sizes = np.ones(len(values), np.int64)
    most = int(zigzag.max()) if len(values) else 0
    shift = 7
    while most >> shift:
        sizes += zigzag >= np.uint64(1 << shift)
        shift += 7
    ends = np.concatenate([[0], np.cumsum(sizes)])
    data = np.empty(ends[-1], np.uint8)
    for at in range(shift // 7):
        rows = slice(None) if at == 0 else np.flatnonzero(sizes > at)
        low = (zigzag[rows] >> np.uint64(7 * at)).astype(np.uint8) & 0x7F
        more = (sizes[rows] > at + 1).astype(np.uint8) << 7
        data[ends[:-1][rows] + at] = low | more
    return _array(ends, data)


def binary(column: pa.Array) -> pa.Array:
    """The length and the bytes of each value; of NULL, of no bytes."""
    whole = column.fill_null(b"") if column.null_count else column
    sizes = pc.binary_length(whole).to_numpy(zero_copy_only=False).astype(np.int64)
    return pc.binary_join_element_wise(varints(sizes), whole, b"")


def followed(parts: Sequence[pa.Array | bytes], rows: int) -> pa.Array:
    """The parts of each row, one after the other."""
    if all(isinstance(p, bytes) for p in parts):
        return pa.repeat(constant(b"".join(parts)), rows)
    if len(parts) == 1 and not isinstance(parts[0], bytes):
        return parts[0]
    made = [constant(p) if isinstance(p, bytes) else p for p in parts]
    return pc.binary_join_element_wise(*made, b"")


def grouped(items: pa.Array, counts: pa.Array) -> pa.Array:
    """Arrays: the items of each row in one block, behind their number, and the end's zero."""
    numbers = counts.to_numpy(zero_copy_only=False).astype(np.int64)
    places = np.concatenate([[0], np.cumsum(numbers)])
    ends = _ends(items)
    data = items.buffers()[2]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    bodies = _array(ends[places].astype(np.int64), whole)
    # An empty array is the end's zero alone.
    heads = pc.if_else(pa.array(numbers > 0), varints(numbers), constant(b""))
    return pc.binary_join_element_wise(heads, bodies, constant(b"\0"), b"")


def decimals(column: pa.Array, size: int | None) -> pa.Array:
    """The unscaled values in two's complement, big-endian: shortest form, or `size` bytes."""
    whole = column.fill_null(0) if column.null_count else column
    data = np.frombuffer(whole.buffers()[1], np.uint8)[whole.offset * _DECIMAL_BYTES :]
    rows = data[: len(whole) * _DECIMAL_BYTES].reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(rows[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
    if size is not None and size >= _DECIMAL_BYTES:
        wide = np.repeat(sign, size - _DECIMAL_BYTES, axis=1)
        return _array(np.arange(len(rows) + 1) * size, np.hstack([wide, rows]).ravel())
    # A leading byte says nothing if it and the next one's first bit repeat the sign.
    alike = (rows[:, :-1] == sign) & ((rows[:, 1:] & 0x80) == (sign & 0x80))
    spare = np.cumprod(alike, axis=1, dtype=np.int64).sum(axis=1)
    if size is not None:
        # The precision of a fixed decimal is what its bytes can hold.
        spare = np.full(len(rows), _DECIMAL_BYTES - size)
    kept = np.arange(_DECIMAL_BYTES) >= spare[:, None]
    ends = np.concatenate([[0], np.cumsum(_DECIMAL_BYTES - spare)])
    return _array(ends, rows[kept])


def _ends(values: pa.Array) -> npt.NDArray[np.int32]:
    offsets = values.buffers()[1]
    if offsets is None:
        return np.zeros(1, np.int32)
    return np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1]


def _array(ends: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> pa.Array:
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)
