"""Partitioners of keys: Kafka's murmur2 for topics, Spark's murmur3 for state partitions.

Both are only implemented here, and tested by golden vectors: a sink topic must agree with Java
producers, and a state partition with Spark's own shuffle, for as long as the table exists.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.types.columns.byte_columns import anywhere
from holdfast.types.columns.pieces import as_array

__all__ = [
    "PARTITIONER",
    "murmur2_partition",
    "murmur2_partitions",
    "spark_hash",
    "state_partition",
    "state_partitions",
]

PARTITIONER = "spark-murmur3-v1"  # in every commit marker, so that a change is detected

_Words: TypeAlias = "npt.NDArray[np.uint32]"

_U32 = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_SPARK_SEED = 42
_MURMUR2_SEED = 0x9747B28C
_MURMUR2_M = 0x5BD1E995
# A few long keys are hashed one by one, in columns of a key's words: a megabyte in columns of one
# row each would take seconds, and a transaction may be open meanwhile.
_LONG = 1_024
_FEW = 64  # keys of one length


def murmur2_partition(key: bytes | None, partitions: int) -> int:
    """A Java producer's topic partition for `key`: `toPositive(murmur2(key)) % partitions`.

    A record without a key gets a random partition.
    """
    if key is None:
        return random.randrange(partitions)
    return (_murmur2(key) & _POSITIVE) % partitions


def murmur2_partitions(keys: Sequence[bytes], n: int) -> list[int]:
    """`murmur2_partition` of many keys at once, computed in columns per key length."""
    found = np.empty(len(keys), dtype=np.int64)
    for same in _by_length(as_array(keys, pa.binary())):
        hashes = same.one_by_one(_murmur2) if same.are_long else _murmur2_columns(same)
        found[same.rows] = (hashes & np.uint32(_POSITIVE)) % n
    partitions: list[int] = found.tolist()
    return partitions


def spark_hash(key: bytes, seed: int = _SPARK_SEED) -> int:
    """Spark SQL's `hash(binary)`: murmur3 32-bit, signed.

    Not the public murmur3: Spark mixes each of the last `len(key) % 4` bytes as a whole,
    sign-extended word.
    """
    aligned = len(key) & ~3
    h = seed & _U32
    if aligned > _LONG:
        for k in _murmur3_scrambled(np.frombuffer(key[:aligned], "<u4")).tolist():
            h = _murmur3_joined(h, k)
    else:
        for at in range(0, aligned, 4):
            h = _murmur3_mix(h, int.from_bytes(key[at : at + 4], "little"))
    for byte in key[aligned:]:
        h = _murmur3_mix(h, byte if byte < 0x80 else byte | 0xFFFFFF00)
    h ^= len(key)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _U32
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _U32
    h ^= h >> 16
    return h - (1 << 32) if h > _POSITIVE else h


def state_partition(key: bytes, partitions: int) -> int:
    """The state partition of a serialized key: Spark's `pmod(hash(key), partitions)`."""
    return spark_hash(key) % partitions


def state_partitions(keys: pa.Array, partitions: int) -> npt.NDArray[np.int64]:
    """`state_partition` of many serialized keys (BINARY) at once; a null key hashes to the seed."""
    hashes = np.empty(len(keys), np.int32)
    for same in _by_length(keys):
        found = same.one_by_one(spark_hash) if same.are_long else _spark_columns(same)
        hashes[same.rows] = found.view(np.int32)
    if keys.null_count:
        hashes[keys.is_null().to_numpy(zero_copy_only=False)] = _SPARK_SEED
    return hashes.astype(np.int64) % partitions


def _spark_columns(keys: _SameLength) -> _Words:
    """`spark_hash` of each key, unsigned."""
    h = np.full(len(keys.rows), _SPARK_SEED, dtype=np.uint32)
    for word in keys.words():
        h = _murmur3_columns(h, word)
    for byte in keys.rest():
        h = _murmur3_columns(h, byte.astype(np.int8).astype(np.uint32))
    h = h ^ np.uint32(keys.length)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def _murmur3_scrambled(word: _Words) -> _Words:
    k = word * np.uint32(0xCC9E2D51)
    return ((k << np.uint32(15)) | (k >> np.uint32(17))) * np.uint32(0x1B873593)


def _murmur3_columns(h: _Words, word: _Words) -> _Words:
    h = h ^ _murmur3_scrambled(word)
    h = (h << np.uint32(13)) | (h >> np.uint32(19))
    return h * np.uint32(5) + np.uint32(0xE6546B64)


def _murmur3_mix(h: int, word: int) -> int:
    k = (word * 0xCC9E2D51) & _U32
    k = ((k << 15) | (k >> 17)) & _U32
    return _murmur3_joined(h, (k * 0x1B873593) & _U32)


def _murmur3_joined(h: int, k: int) -> int:
    h ^= k
    h = ((h << 13) | (h >> 19)) & _U32
    return (h * 5 + 0xE6546B64) & _U32


def _murmur2(key: bytes) -> int:
    """Kafka's murmur2 as an unsigned 32-bit number."""
    aligned = len(key) & ~3
    h = _MURMUR2_SEED ^ len(key)
    if aligned > _LONG:
        for k in _murmur2_scrambled(np.frombuffer(key[:aligned], "<u4")).tolist():
            h = ((h * _MURMUR2_M) & _U32) ^ k
    else:
        for at in range(0, aligned, 4):
            k = (int.from_bytes(key[at : at + 4], "little") * _MURMUR2_M) & _U32
            k = ((k ^ (k >> 24)) * _MURMUR2_M) & _U32
            h = ((h * _MURMUR2_M) & _U32) ^ k
    if aligned < len(key):
        h = ((h ^ int.from_bytes(key[aligned:], "little")) * _MURMUR2_M) & _U32
    h = ((h ^ (h >> 13)) * _MURMUR2_M) & _U32
    return h ^ (h >> 15)


def _murmur2_scrambled(word: _Words) -> _Words:
    k = word * np.uint32(_MURMUR2_M)
    return (k ^ (k >> np.uint32(24))) * np.uint32(_MURMUR2_M)


def _murmur2_columns(keys: _SameLength) -> _Words:
    """`_murmur2` of each key; uint32 arithmetic wraps."""
    m = np.uint32(_MURMUR2_M)
    h = np.full(len(keys.rows), _MURMUR2_SEED ^ keys.length, dtype=np.uint32)
    for word in keys.words():
        h = (h * m) ^ _murmur2_scrambled(word)
    if keys.length & 3:
        for nth, byte in enumerate(keys.rest()):
            h = h ^ (byte.astype(np.uint32) << np.uint32(8 * nth))
        h = h * m
    h = (h ^ (h >> np.uint32(13))) * m
    return h ^ (h >> np.uint32(15))


@dataclass(frozen=True)
class _SameLength:
    """Keys of one length: their row numbers, and where each starts in `data`."""

    data: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    length: int

    @property
    def are_long(self) -> bool:
        """Whether the keys are hashed faster one by one."""
        return self.length > _LONG and len(self.rows) < _FEW

    def one_by_one(self, hash_of: Callable[[bytes], int]) -> _Words:
        """The hash of each key."""
        keys = (self.data[at : at + self.length].tobytes() for at in self.starts.tolist())
        return np.array([hash_of(key) & _U32 for key in keys], np.uint32)

    def words(self) -> Iterator[_Words]:
        """Yields four bytes of each key at a time, little endian, while there are four."""
        words = anywhere(self.data, "<u4")
        return (words[self.starts + at] for at in range(0, self.length & ~3, 4))

    def rest(self) -> Iterator[npt.NDArray[np.uint8]]:
        """Yields the remaining bytes of each key, up to three, one at a time."""
        return (self.data[self.starts + at] for at in range(self.length & ~3, self.length))


def _by_length(keys: pa.Array) -> Iterator[_SameLength]:
    """The keys of each length that occurs in a BINARY array."""
    if not len(keys):
        return
    _, offsets, content = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset :][: len(keys) + 1].astype(np.int64)
    data = np.frombuffer(b"" if content is None else content, np.uint8)
    starts, lengths = ends[:-1], np.diff(ends)
    short = lengths.max(initial=0) <= np.iinfo(np.uint16).max  # numpy sorts those by radix
    order = np.argsort(lengths.astype(np.uint16) if short else lengths, kind="stable")
    sizes, firsts = np.unique(lengths[order], return_index=True)
    for length, rows in zip(sizes.tolist(), np.split(order, firsts[1:]), strict=False):
        yield _SameLength(data, rows, starts[rows], length)
