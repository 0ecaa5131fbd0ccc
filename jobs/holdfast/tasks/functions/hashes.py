"""Hashes of text, as Spark SQL computes them."""

from __future__ import annotations

import hashlib
import zlib

from holdfast.tasks.functions.base import PythonFunction

__all__ = ["HASHES"]

_SHA2 = {
    0: hashlib.sha256,
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}
_SEED = 42
_MASK = (1 << 64) - 1
# The primes of xxHash; see https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md.
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _sha2(text: str, bits: int) -> str | None:
    made = _SHA2.get(bits)
    return None if made is None else made(text.encode()).hexdigest()


def _crc32(text: str) -> int:
    return zlib.crc32(text.encode())


def _xxhash64(text: str | None) -> int:
    """XXH64 with Spark's seed as a signed number; NULL is the seed."""
    if text is None:
        return _SEED
    code = _xxh64(text.encode(), _SEED)
    return code - (1 << 64) if code >> 63 else code


def _xxh64(raw: bytes, seed: int) -> int:
    striped = len(raw) // 32 * 32
    code = _stripes(raw, striped, seed) if striped else (seed + _P5) & _MASK
    code = (code + len(raw)) & _MASK
    at = striped
    while at + 8 <= len(raw):
        code = (_rotated(code ^ _round(0, _number(raw, at, 8)), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= len(raw):
        code = (_rotated(code ^ (_number(raw, at, 4) * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in raw[at:]:
        code = (_rotated(code ^ (byte * _P5 & _MASK), 11) * _P1) & _MASK
    for shift, prime in ((33, _P2), (29, _P3)):
        code = ((code ^ code >> shift) * prime) & _MASK
    return code ^ code >> 32


def _stripes(raw: bytes, end: int, seed: int) -> int:
    """The four lanes over all whole stripes of 32 bytes, as one number."""
    lanes = [(seed + add) & _MASK for add in (_P1 + _P2, _P2, 0, -_P1)]
    for at in range(0, end, 32):
        lanes = [_round(lane, _number(raw, at + 8 * i, 8)) for i, lane in enumerate(lanes)]
    rotations = zip(lanes, (1, 7, 12, 18), strict=True)
    code = sum(_rotated(lane, by) for lane, by in rotations) & _MASK
    for lane in lanes:
        code = ((code ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return code


def _round(lane: int, value: int) -> int:
    return _rotated((lane + value * _P2) & _MASK, 31) * _P1 & _MASK


def _number(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "little")


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


HASHES = (
    PythonFunction("CRC32", _crc32),
    PythonFunction("SHA2", _sha2),
    PythonFunction("XXHASH64", _xxhash64, nulls=True),
)
