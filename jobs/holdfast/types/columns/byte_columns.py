"""Concatenates byte strings in columns: keys and rows of a batch without a step per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Parts", "anywhere", "block", "fixed", "joined", "tails"]

# The parts to concatenate in each row: BINARY arrays, and bytes that all rows share.
Parts: TypeAlias = "Sequence[pa.Array | bytes]"


def fixed(values: npt.NDArray[Any]) -> pa.Array:
    """The bytes of each element (of any dtype, also a structured one) as a BINARY array."""
    width = values.dtype.itemsize
    ends = np.arange(0, (len(values) + 1) * width, width, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(values).tobytes())
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(ends), data])


def joined(*parts: pa.Array | bytes) -> list[bytes]:
    """The parts of each row concatenated; plain bytes are the same in all rows.

    Args:
        parts: BINARY arrays of one length without nulls, at least one, and bytes.
    """
    blocks = [part if isinstance(part, bytes) else block(part) for part in parts]
    alike = [each for each in blocks if each is not None]
    if len(alike) == len(parts):
        return _side_by_side(alike)
    whole: list[bytes] = pc.binary_join_element_wise(*parts, b"").to_pylist()
    return whole


def block(values: pa.Array) -> npt.NDArray[np.uint8] | None:
    """A matrix with a row of bytes for each value of a BINARY array without nulls.

    None if the values are empty, or differ in length.
    """
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1]
    if not len(values) or ends[0] == ends[1] or (np.diff(ends) != ends[1] - ends[0]).any():
        return None
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].reshape(len(values), -1)


def _side_by_side(blocks: Sequence[bytes | npt.NDArray[np.uint8]]) -> list[bytes]:
    """`joined` for parts whose values have one length each, which takes half the time."""
    widths = [len(b) if isinstance(b, bytes) else b.shape[1] for b in blocks]
    height = next(len(b) for b in blocks if not isinstance(b, bytes))
    rows = np.empty((height, sum(widths)), np.uint8)
    at = 0
    for each, width in zip(blocks, widths, strict=True):
        same = np.frombuffer(each, np.uint8) if isinstance(each, bytes) else each
        rows[:, at : at + width] = same
        at += width
    whole: list[bytes] = rows.view(f"V{at}").ravel().tolist()
    return whole


def anywhere(data: npt.NDArray[np.uint8], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A view with an element of that dtype at each byte.

    It has one element fewer for each byte by which the dtype is wider than one byte.
    """
    kind = np.dtype(dtype)
    return np.ndarray(max(len(data) - kind.itemsize + 1, 0), kind, data.data, strides=(1,))


def tails(values: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The last bytes of each value of a BINARY array without nulls, read as that dtype.

    No value may be shorter.
    """
    kind = np.dtype(dtype)
    if not len(values):
        return np.empty(0, kind)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset + 1 :][: len(values)]
    at = ends.astype(np.int64)[:, None] + np.arange(-kind.itemsize, 0)
    found: npt.NDArray[Any] = np.frombuffer(data, np.uint8)[at].view(kind).reshape(-1)
    return found
