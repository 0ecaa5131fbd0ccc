"""The store contract: an ordered map of bytes to bytes, written in atomic batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

__all__ = ["Found", "KeyValueStore", "flat"]

# For each pair found, the number of its range, its key and its value.
Found = tuple[list[int], list[bytes], list[bytes]]


def flat(ranges: Iterable[Sequence[tuple[bytes, bytes]]]) -> Found:
    """Flattens the pairs found in each range."""
    found = [(n, key, value) for n, pairs in enumerate(ranges) for key, value in pairs]
    numbers, keys, values = zip(*found, strict=True) if found else ((), (), ())
    return list(numbers), list(keys), list(values)


class KeyValueStore(Protocol):
    """An ordered map of bytes, owned by one process at a time and used by one thread.

    Keys are ordered bytewise.  A batch is written whole or not at all, even if the process is
    killed in the middle; after a power loss the content may be older, but never torn.

    Every method but `close` raises `StoreCorrupted`, `VolumeFull` or `Refused` if the files below
    fail.
    """

    @property
    def durable(self) -> bool:
        """Whether rows outlive the process."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, None for a missing one; as long as `keys`."""

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Sequence[bytes]) -> None:
        """Applies one atomic batch: first the deletes, then the puts, each in order.

        Deleting a missing key is allowed; of several puts of one key the last counts.
        """

    def begin_bulk(self) -> None:
        """Allows faster, less durable writes until `end_bulk`.

        A kill may lose the last batches, whole ones and in reverse order; only for rows that can be
        replayed.
        """

    def end_bulk(self) -> None:
        """Makes written batches durable, and ends bulk mode.  May be called at any time."""

    def scan(
        self, start: bytes, end: bytes | None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with `start <= key < end` in key order, at most `limit`; `end` None: no bound.

        Writes during a scan do not disturb it; whether it shows them is unspecified.
        """

    def count(self, start: bytes, end: bytes) -> int:
        """The number of keys with `start <= key < end`; iterates over all of them."""

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The result of `scan` for each range (start, end); fastest if ranges are in key order."""

    def scan_apart(self, starts: Sequence[bytes], ends: Sequence[bytes]) -> Found:
        """Pairs with `start <= key < end` of ranges that are in key order and do not overlap.

        For many ranges of which most are empty.
        """

    def copy_to(self, folder: Path) -> None:
        """Makes a store of the same content in a new folder, as of between two batches.

        May be called while another thread writes.  Takes next to no time and space: files that do
        not change are shared.  `Refused` if the store is not durable.
        """

    def bytes_on_disk(self) -> int:
        """The size of the store in bytes, on disk if durable, otherwise in memory (roughly)."""

    def wipe(self) -> None:
        """Removes every row; the store stays open."""

    def close(self) -> None:
        """Releases files and locks; the store must not be used again.  May be called twice."""
