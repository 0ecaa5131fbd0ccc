"""Element rows: the parts of a row that may grow, each under a key of its own.

    0x02 | length of the state key, 4 bytes | state key | number of the aggregate, 2 bytes | element

They are records of the changelog and pairs of the store like rows, but no rows of the table: scans
and counts of rows do not see them.  They live as long as the row with their state key, and where
that is.
"""

from __future__ import annotations

import struct

from holdfast.state.changelog import DATA_PREFIX

__all__ = [
    "ELEMENT_PREFIX",
    "NUMBER_BYTES",
    "element_head",
    "elements_after",
    "is_element",
    "is_row",
    "state_key_of",
]

ELEMENT_PREFIX = b"\x02"
NUMBER_BYTES = 2
_LENGTH = struct.Struct(">I")
_HEAD = len(ELEMENT_PREFIX) + _LENGTH.size


def element_head(state_key: bytes) -> bytes:
    """The beginning of the keys of a row's elements; no other key begins with it."""
    return ELEMENT_PREFIX + _LENGTH.pack(len(state_key)) + state_key


def elements_after(state_key: bytes) -> bytes:
    """A key behind all elements of a row, and before those of the next."""
    return element_head(state_key) + b"\xff" * NUMBER_BYTES


def is_element(key: bytes) -> bool:
    """Whether it is the key of an element row."""
    if key[:1] != ELEMENT_PREFIX or len(key) < _HEAD:
        return False
    return len(key) >= _HEAD + _length(key) + NUMBER_BYTES


def is_row(key: bytes | None) -> bool:
    """Whether a record's key is that of a row, or of an element of one."""
    return key is not None and (key.startswith(DATA_PREFIX) or is_element(key))


def state_key_of(key: bytes) -> bytes:
    """The state key of the row that a record is, or belongs to; `is_row` holds for its key."""
    if key[:1] == DATA_PREFIX:
        return key[len(DATA_PREFIX) :]
    return key[_HEAD : _HEAD + _length(key)]


def _length(key: bytes) -> int:
    length: int = _LENGTH.unpack_from(key, len(ELEMENT_PREFIX))[0]
    return length
