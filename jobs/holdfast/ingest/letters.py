"""Dead letters: a bad record unchanged, or cut if it is too large.

A letter that is cut has these headers, for its key and its value each (`key.` or `value.`):

| header | value |
|---|---|
| `holdfast.value.bytes` | size of the record's value |
| `holdfast.value.sha256` | its SHA-256, in hexadecimal digits |

Its key and value are the first bytes of the record's.  A short key or value stays whole but has the
headers, too; its size shows that it is whole.  `holdfast.topic`, `.partition` and `.offset` locate
the original record for as long as its topic keeps it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from holdfast.ingest.records import BadRecord
from holdfast.transport.sizes import record_bytes

__all__ = ["Headers", "Letter", "cut", "whole"]

Headers = list[tuple[str, str | bytes | None]]
_HEAD_BYTES = 1_024
_REASON_CHARS = 100
_REASON = "holdfast.reason"


@dataclass(frozen=True)
class Letter:
    """A record of the dead-letter topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size(self) -> int:
        """The most bytes that the letter takes of the topic's limit."""
        return record_bytes(self.key, self.value, self.headers)


def whole(record: BadRecord, headers: Headers) -> Letter:
    """The record unchanged."""
    return Letter(record.key, record.value, headers)


def cut(letter: Letter, room: int) -> Letter:
    """Cuts a letter to the first bytes of key and value, with their sizes and hashes.

    Args:
        room: the size of the cut letter in bytes, if its headers fit into that.
    """
    headers = letter.headers + _facts("key", letter.key) + _facts("value", letter.value)
    left = room - record_bytes(None, None, headers)
    if left < 0:
        headers = [(n, v[:_REASON_CHARS] if n == _REASON and v else v) for n, v in headers]
        left = room - record_bytes(None, None, headers)
    half = max(0, min(_HEAD_BYTES, left // 2))
    return Letter(_head(letter.key, half), _head(letter.value, half), headers)


def _facts(part: str, payload: bytes | None) -> Headers:
    if payload is None:
        return []
    return [
        (f"holdfast.{part}.bytes", str(len(payload))),
        (f"holdfast.{part}.sha256", hashlib.sha256(payload).hexdigest()),
    ]


def _head(payload: bytes | None, most: int) -> bytes | None:
    return None if payload is None else payload[:most]
