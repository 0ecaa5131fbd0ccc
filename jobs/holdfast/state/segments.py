"""An index by time with one entry per batch and segment that lists keys, instead of one per key.

It is enough for rows that come many per batch, never change, and leave by age.  They leave a
segment at a time, as in Kafka Streams' window stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.state.store import KeyValueStore
from holdfast.state.times import ordered
from holdfast.types.columns.byte_columns import fixed, tails

__all__ = ["FOREVER_MS", "SEGMENT_MS", "Segments"]

SEGMENT_MS = 1 << 16  # a minute, like the shortest segments of Kafka Streams
FOREVER_MS = (1 << 63) - 1  # the time of a state key that no segment lists and never expires
_KEYS_MAX = 10_000  # per entry: about as many leave at once
_LENGTH = 4  # bytes of a length
_NUMBER = 8  # bytes of an entry's number
_AGAIN = 1 << 63
_AGAIN_BYTE = 0x80
Bytes: TypeAlias = "npt.NDArray[np.uint8]"
Pairs = list[tuple[bytes, bytes]]


class Segments:
    """Indexes a store's keys by the time in their last eight bytes; owns the layout of entries.

    | key | value |
    |---|---|
    | prefix + start of the segment (8 bytes, ordered) + length (4 bytes) + number (8 bytes) | \
      length of its keys, the first, which places of it differ in others, those columns |

    An entry lists keys of one length from one batch; removed keys are in no entry.  Entries of a
    full restore, with numbers from `_AGAIN` on, may repeat a key whose row is in the changelog more
    than once; any other key is in one entry.
    """

    def __init__(self, store: KeyValueStore, prefix: bytes, number_key: bytes) -> None:
        """Reads the number of entries from `number_key`; the owner of this object writes it."""
        self._store, self._prefix, self._number_key = store, prefix, number_key
        (number,) = store.get_many([number_key])
        self._number = int.from_bytes(number or b"", "big")

    def listed(self, start_ms: int, end_ms: int, limit: int) -> list[bytes]:
        """State keys of segments within `start_ms <= time < end_ms`, oldest first.

        Returns whole entries until there are `limit` keys.
        """
        found: list[bytes] = []
        for _, value in self._entries(start_ms, max(end_ms - SEGMENT_MS + 1, start_ms)):
            if len(found) >= limit:
                break
            found += _listed(_keys_of(value))
        return list(dict.fromkeys(found))

    def changes(
        self, added: Sequence[bytes], gone: Sequence[bytes], *, new: bool = True
    ) -> tuple[Pairs, list[bytes]]:
        """(puts, deletes) for added and removed rows; no key is in both.

        Args:
            new: whether all added keys are new.
        """
        puts, deletes = self._without(gone) if gone else ([], [])
        puts += self._listing(pa.array(added, pa.binary()), 0 if new else _AGAIN)
        if puts:
            puts.append((self._number_key, self._number.to_bytes(_NUMBER, "big")))
        return puts, deletes

    def wiped(self) -> None:
        """Resets the index after the store was wiped."""
        self._number = 0

    def _listing(self, keys: pa.Array, kind: int) -> Pairs:
        puts = []
        for start, part in _by_segment(keys):
            for at in range(0, len(part), _KEYS_MAX):
                self._number += 1
                number = (self._number + kind).to_bytes(_NUMBER, "big")
                keys_at = part[at : at + _KEYS_MAX]
                puts.append((self._place(start, part.shape[1]) + number, _value_of(keys_at)))
        return puts

    def _without(self, gone: Sequence[bytes]) -> tuple[Pairs, list[bytes]]:
        """The entries of the removed keys, rewritten without them."""
        puts: Pairs = []
        deletes: list[bytes] = []
        for start, part in _by_segment(pa.array(gone, pa.binary())):
            missing = len(part)
            for listed in self._groups(self._place(start, part.shape[1]), missing):
                for (entry, keys), stays in zip(listed, _absent(listed, part), strict=True):
                    left = keys[stays]
                    if not len(left):
                        deletes.append(entry)
                    elif len(left) < len(keys):
                        puts.append((entry, _value_of(left)))
                    if entry[-_NUMBER] < _AGAIN_BYTE:
                        missing -= len(keys) - len(left)
                if not missing:
                    break
        return puts, deletes

    def _groups(self, place: bytes, size: int) -> Iterator[list[tuple[bytes, Bytes]]]:
        """Entries with their keys, in groups of at least `size` keys."""
        group: list[tuple[bytes, Bytes]] = []
        held = 0
        for entry, value in self._store.scan(place, place + b"\xff" * (_NUMBER + 1)):
            group.append((entry, _keys_of(value)))
            held += len(group[-1][1])
            if held >= size:
                yield group
                group, held = [], 0
        if group:
            yield group

    def _entries(self, first_ms: int, end_ms: int) -> Iterator[tuple[bytes, bytes]]:
        """The entries of segments with `first_ms <= start < end_ms`."""
        return self._store.scan(self._prefix + ordered(first_ms), self._prefix + ordered(end_ms))

    def _place(self, start_ms: int, length: int) -> bytes:
        return self._prefix + ordered(start_ms) + length.to_bytes(_LENGTH, "big")


def _by_segment(keys: pa.Array) -> Iterator[tuple[int, Bytes]]:
    """Starts of segments, each with its keys of one length, a row of bytes per key."""
    times = tails(keys, ">i8").astype(np.int64)
    leaves = times != FOREVER_MS
    if not leaves.all():
        keys, times = keys.filter(pa.array(leaves)), times[leaves]
    if not len(keys):
        return
    segments = times // SEGMENT_MS
    lengths = pc.binary_length(keys).to_numpy(zero_copy_only=False)
    order = np.lexsort((lengths, segments))
    keys, segments, lengths = keys.take(pa.array(order)), segments[order], lengths[order]
    changed = (np.diff(segments) != 0) | (np.diff(lengths) != 0)
    starts = [0, *(np.flatnonzero(changed) + 1).tolist()]
    data, at = np.frombuffer(keys.buffers()[2], np.uint8), 0
    for start, end in zip(starts, [*starts[1:], len(segments)], strict=True):
        size = (end - start) * int(lengths[start])
        yield int(segments[start]) * SEGMENT_MS, data[at : at + size].reshape(end - start, -1)
        at += size


def _value_of(keys: Bytes) -> bytes:
    """Encodes keys; a place with the same byte in all keys of the entry is written once."""
    first = keys[0]
    differs = (keys != first).any(axis=0)
    return b"".join(
        [
            keys.shape[1].to_bytes(_LENGTH, "little"),
            first.tobytes(),
            differs.tobytes(),
            np.ascontiguousarray(keys[:, differs].T).tobytes(),
        ]
    )


def _keys_of(value: bytes) -> Bytes:
    length = int.from_bytes(value[:_LENGTH], "little")
    first = np.frombuffer(value, np.uint8, length, _LENGTH)
    differs = np.frombuffer(value, np.bool_, length, _LENGTH + length)
    rest = np.frombuffer(value, np.uint8, -1, _LENGTH + 2 * length)
    places = int(np.count_nonzero(differs))
    keys = np.empty((len(rest) // places if places else 1, length), np.uint8)
    keys[:] = first
    keys[:, differs] = rest.reshape(places, -1).T if places else rest
    return keys


def _listed(keys: Bytes) -> list[bytes]:
    found: list[bytes] = keys.view(f"V{keys.shape[1]}").ravel().tolist()
    return found


def _absent(listed: Sequence[tuple[bytes, Bytes]], gone: Bytes) -> list[npt.NDArray[np.bool_]]:
    """For each entry, which of its keys are not in `gone`; all keys have one length."""
    every, value_set = (
        fixed(np.ascontiguousarray(keys).view(f"V{gone.shape[1]}").ravel())
        for keys in (np.concatenate([keys for _, keys in listed]), gone)
    )
    found = pc.is_in(every, value_set).to_numpy(zero_copy_only=False)
    return np.split(~found, np.cumsum([len(keys) for _, keys in listed])[:-1])
