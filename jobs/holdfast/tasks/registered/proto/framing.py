"""Bytes between a schema's id and a Protobuf message: which message of the schema it is.

A zigzag varint of how many indexes follow, then each: of a message in the file, of one within that
one, and so on.  A single 0 is short for the first message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.tasks.registered.proto.files import ProtoError

__all__ = ["header", "indexes_at"]

_DEPTH_MAX = 64  # messages within messages
_VARINT_BYTES = 10


def header(schema_id: int, indexes: Sequence[int]) -> bytes:
    """All that stands before a message."""
    head = b"\0" + schema_id.to_bytes(4, "big")
    if tuple(indexes) == (0,):
        return head + b"\0"
    return head + b"".join(map(_varint, (len(indexes), *indexes)))


def indexes_at(payload: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """The indexes at a place, and where the message begins.

    Raises:
        ProtoError: there are none, or more than messages can be nested.
    """
    numbers = _varints(payload, start)
    count, end = next(numbers)
    if not 0 <= count <= _DEPTH_MAX:
        raise ProtoError(f"its header names a message by {count} indexes, at most {_DEPTH_MAX}")
    found = []
    for _ in range(count):
        index, end = next(numbers)
        found.append(index)
    return tuple(found) or (0,), end


def _varints(payload: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Each number with the place after it."""
    while True:
        number, shift = 0, 0
        while True:
            if at >= len(payload):
                raise ProtoError(f"it ends after {len(payload)} bytes, within its header")
            if shift >= 7 * _VARINT_BYTES:
                raise ProtoError(f"a number in its header has more than {_VARINT_BYTES} bytes")
            byte = payload[at]
            number |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        yield (number >> 1) ^ -(number & 1), at


def _varint(number: int) -> bytes:
    rest, made = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*made, rest])
