"""The places in many Avro payloads up to which they were read, and the numbers read there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Cursor", "Rows"]

Rows: TypeAlias = "npt.NDArray[np.intp]"
_PADDING = 16  # zeros after the last payload, so that a number that begins within it can be read
_VARINT_MAX = 10  # bytes


class Cursor:
    """One place per payload; `bad` has the reason of each payload that cannot be read."""

    def __init__(self, payloads: Sequence[bytes], start: int) -> None:
        joined = b"".join([*payloads, bytes(_PADDING)])
        self.data = np.frombuffer(joined, np.uint8)
        self._buffer = pa.py_buffer(joined)
        sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))
        self.end = np.cumsum(sizes)
        self.at = self.end - sizes + start
        self.bad: dict[int, str] = {}
        self._last = len(joined) - _PADDING

    def behind(self, head: bytes) -> bool:
        """Whether each payload begins with this header, behind which its place is."""
        begins = self.at - len(head)
        if (self.at > self.end).any():
            return False
        return all((self.data[begins + at] == byte).all() for at, byte in enumerate(head))

    def fail(self, rows: Rows, why: str) -> None:
        """Marks payloads; the first reason of each counts."""
        for row in rows.tolist():
            self.bad.setdefault(row, why)
        self.at[rows] = self.end[rows]

    def finish(self) -> None:
        """Marks payloads that end too early or too late."""
        for row in np.flatnonzero(self.at != self.end).tolist():
            left = int(self.end[row] - self.at[row])
            why = f"{left} bytes are left over" if left > 0 else "it is truncated"
            self.bad.setdefault(row, f"not what its schema writes: {why}")

    def take(self, rows: Rows, width: int) -> npt.NDArray[np.uint8]:
        """The next `width` bytes of each payload, as a matrix."""
        starts = self._room(rows, np.full(len(rows), width, np.int64))
        places = np.minimum(starts[:, None] + np.arange(width), len(self.data) - 1)
        found: npt.NDArray[np.uint8] = self.data[places]
        return found

    def numbers(self, rows: Rows) -> npt.NDArray[np.int64]:
        """The next zigzag varint of each payload."""
        starts = self.at[rows]
        places = np.minimum(starts, self._last)
        first = self.data[places]
        value = (first & 0x7F).astype(np.uint64)
        sizes = np.ones(len(rows), np.int64)
        more = np.flatnonzero(first & 0x80)
        for count in range(1, _VARINT_MAX):
            if not len(more):
                break
            byte = self.data[np.minimum(places[more] + count, len(self.data) - 1)]
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * count)
            sizes[more] += 1
            more = more[(byte & 0x80) != 0]
        self.at[rows] = starts + sizes
        self._check(rows)
        if len(more):
            self.fail(rows[more], "not what its schema writes: a number has over 10 bytes")
        signs = (np.uint64(0) - (value & np.uint64(1))).view(np.int64)
        found: npt.NDArray[np.int64] = (value >> np.uint64(1)).view(np.int64) ^ signs
        return found

    def texts(self, rows: Rows, sizes: npt.NDArray[np.int64]) -> pa.Array:
        """The next bytes of each payload, as many as `sizes` says, as a BINARY array."""
        starts = self._room(rows, sizes)
        ends = self.at[rows]
        offsets = np.empty(2 * len(rows) + 1, np.int32)
        offsets[0:-1:2], offsets[1::2] = starts, ends
        offsets[-1] = ends[-1] if len(rows) else 0
        between = pa.Array.from_buffers(
            pa.binary(), 2 * len(rows), [None, pa.py_buffer(offsets), self._buffer]
        )
        return between.take(pa.array(np.arange(0, 2 * len(rows), 2)))

    def skip(self, rows: Rows, sizes: npt.NDArray[np.int64]) -> None:
        """Moves over bytes."""
        self._room(rows, sizes)

    def left(self, rows: Rows) -> npt.NDArray[np.int64]:
        """How many bytes each payload has left."""
        found: npt.NDArray[np.int64] = self.end[rows] - self.at[rows]
        return found

    def _room(self, rows: Rows, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Moves over `sizes` bytes; returns where they start."""
        wrong = (sizes < 0) | (sizes > self.left(rows))
        if wrong.any():
            self.fail(rows[wrong], "not what its schema writes: it is truncated")
            sizes = np.where(wrong, 0, sizes)
        starts = self.at[rows]
        self.at[rows] = starts + sizes
        return starts

    def _check(self, rows: Rows) -> None:
        over = self.at[rows] > self.end[rows]
        if over.any():
            self.fail(rows[over], "not what its schema writes: it is truncated")
