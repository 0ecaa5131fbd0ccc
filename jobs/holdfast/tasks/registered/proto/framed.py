"""Many messages behind heads of one length, joined: all are judged and cut out without a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["TOGETHER_MAX", "Framed"]

TOGETHER_MAX = 1 << 28  # bytes; they are copied twice
_PIECE = 1 << 22  # bytes parsed together: Google's objects take many times that
_SIZE_BYTES = 5  # of a message's size
_TAG_BYTES_MAX = 5
_FIRST_FIELD = 0x0A  # field 1, of type message


class Framed:
    """Payloads of at most `TOGETHER_MAX` bytes, joined, and the head that each should have."""

    def __init__(self, payloads: Sequence[bytes], head: bytes) -> None:
        self._head = head
        self._joined = b"".join(payloads)
        self._data = np.frombuffer(self._joined, np.uint8)
        self._whole = np.fromiter(map(len, payloads), np.int64, len(payloads))
        self._ends = np.cumsum(self._whole)
        self._begins = self._ends - self._whole

    @property
    def is_alike(self) -> bool:
        """Whether each payload has the head, which all else here needs."""
        if (self._whole < len(self._head)).any():
            return False
        heads = (self._data[self._begins + at] == byte for at, byte in enumerate(self._head))
        return all(map(np.all, heads))

    def messages(self) -> pa.Array:
        """The messages as a BINARY array."""
        rows = len(self._ends)
        offsets = np.empty(2 * rows + 1, np.int32)
        offsets[0:-1:2] = self._begins + len(self._head)
        offsets[1::2], offsets[-1] = self._ends, len(self._joined)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._joined)]
        between = pa.Array.from_buffers(pa.binary(), 2 * rows, buffers)
        return between.take(pa.array(np.arange(0, 2 * rows, 2)))

    @property
    def can_be_listed(self) -> bool:
        """Whether a field's tag and size have room in the heads."""
        return 0 < len(self._head) - _SIZE_BYTES <= _TAG_BYTES_MAX

    def as_lists(self) -> Iterator[bytes]:
        """Messages with all of them in their first fields, whose tags stand in the heads."""
        data, begins = self._data.copy(), self._begins
        width = len(self._head) - _SIZE_BYTES
        for byte, part in enumerate(_varint(np.array([_FIRST_FIELD]), width)):
            data[begins + byte] = part[0]
        for byte, part in enumerate(_varint(self._whole - len(self._head), _SIZE_BYTES)):
            data[begins + width + byte] = part
        first = 0
        while first < len(begins):
            end = begins[first] + _PIECE
            last = max(first + 1, int(np.searchsorted(self._ends, end, "right")))
            yield data[begins[first] : self._ends[last - 1]].tobytes()
            first = last


def _varint(numbers: npt.NDArray[np.int64], width: int) -> Iterator[npt.NDArray[np.int64]]:
    """The bytes of numbers, exactly so many: as Protobuf allows, the last ones may be zeros."""
    for byte in range(width):
        more = 0x80 if byte < width - 1 else 0
        yield (numbers >> (7 * byte)) & 0x7F | more
