"""Text columns to msgpack and back, all rows at once; equal to msgpack's output byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.types.columns.byte_columns import fixed, joined

__all__ = ["pack_texts", "unpack_texts"]

_LENGTH_MAX = 4096  # bytes of a text; rows with longer ones are left to msgpack itself
_COLUMNS_MAX = 15
_ARRAY, _NULL = 0x90, 0xC0
_SHORT, _ONE_BYTE, _TWO_BYTES = 0xA0, 0xD9, 0xDA

Rows: TypeAlias = "npt.NDArray[np.int64]"


def pack_texts(heads: npt.NDArray[np.void], columns: Sequence[pa.Array]) -> list[bytes] | None:
    """The bytes of each head, followed by msgpack's bytes for the row of STRING columns.

    None: some row is unsuitable for this path.
    """
    longest = max((pc.max(pc.binary_length(c)).as_py() or 0 for c in columns), default=0)
    if longest > _LENGTH_MAX or len(columns) > _COLUMNS_MAX:
        return None
    parts: list[pa.Array | bytes] = [fixed(heads), bytes([_ARRAY | len(columns)])]
    for column in columns:
        lengths = pc.fill_null(pc.binary_length(column), _LENGTH_MAX + 1)
        parts += [_headers().take(lengths), pc.fill_null(column, "").cast(pa.binary())]
    return joined(*parts)


def unpack_texts(rows: Sequence[bytes | None], at: int, count: int) -> list[pa.Array] | None:
    """The inverse of `pack_texts`: `count` STRING columns that begin at byte `at` of each row.

    Absent rows are null.  None: some row is unsuitable for this path.
    """
    whole = pa.array(rows, pa.binary())
    present = whole.is_valid().to_numpy(zero_copy_only=False)
    _, ends, buffer = whole.buffers()
    data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.empty(0, np.uint8)
    starts = np.frombuffer(ends, np.int32)[: len(rows)].astype(np.int64)
    place = starts[present] + at
    if count > _COLUMNS_MAX or (data[place] != _ARRAY | count).any():
        return None
    place += 1
    columns: list[pa.Array] = []
    for _ in range(count):
        found = _lengths(data, place)
        if found is None:
            return None
        width, length = found
        columns.append(_texts(data, (place + width, length), present, data[place] != _NULL))
        place = place + width + length
    return columns


@cache
def _headers() -> pa.Array:
    """msgpack's header of a text by the text's length; the last entry is nil."""
    short = [bytes([_SHORT | n]) for n in range(32)]
    one = [bytes([_ONE_BYTE, n]) for n in range(32, 256)]
    two = [bytes([_TWO_BYTES, n >> 8, n & 0xFF]) for n in range(256, _LENGTH_MAX + 1)]
    return pa.array([*short, *one, *two, bytes([_NULL])], pa.binary())


def _lengths(data: npt.NDArray[np.uint8], place: Rows) -> tuple[Rows, Rows] | None:
    """Widths of headers and lengths of the texts at `place`; None if one is not such a text."""
    first = data[place].astype(np.int64)
    one, two = first == _ONE_BYTE, first == _TWO_BYTES
    short = first & 0xE0 == _SHORT
    if not (short | one | two | (first == _NULL)).all():
        return None
    length = np.where(short, first & 0x1F, 0)
    length[one] = data[place[one] + 1]
    length[two] = data[place[two] + 1].astype(np.int64) << 8 | data[place[two] + 2]
    return 1 + one + 2 * two, length


def _texts(
    data: npt.NDArray[np.uint8],
    spans: tuple[Rows, Rows],
    present: npt.NDArray[np.bool_],
    there: npt.NDArray[np.bool_],
) -> pa.Array:
    """A STRING array of all rows: the bytes at (start, length) for present rows if `there`."""
    start, length = spans
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    taken = data[np.arange(total) + np.repeat(start - (ends - length), length)]
    offsets = np.zeros(len(present) + 1, np.int32)
    offsets[1:][present] = length
    valid = present.copy()
    valid[present] = there
    buffers = [np.packbits(valid, bitorder="little"), np.cumsum(offsets, dtype=np.int32), taken]
    return pa.Array.from_buffers(pa.string(), len(present), [pa.py_buffer(b) for b in buffers])
