"""The store contract: ordered bytes to bytes, written in atomic batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

__all__ = ["Found", "KeyValueStore", "flat"]

# Of each pair the number of the range that it lies in, its key and its value.
Found = tuple[list[int], list[bytes], list[bytes]]


def flat(ranges: Iterable[Sequence[tuple[bytes, bytes]]]) -> Found:
    """What was found range by range."""
    found = [(n, key, value) for n, pairs in enumerate(ranges) for key, value in pairs]
    numbers, keys, values = zip(*found, strict=True) if found else ((), (), ())
    return list(numbers), list(keys), list(values)


class KeyValueStore(Protocol):
    """An ordered map of bytes; one process owns it at a time, one thread uses it.

    Keys are ordered bytewise.  A batch is written whole or not at all, also when the process is
    killed in the middle; what survives the loss of power may be older, never torn.

    Every method raises `StoreCorrupted`, `VolumeFull` or `Refused` when the files below fail.
    """

    @property
    def durable(self) -> bool:
        """Whether rows outlive the process."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, None where there is none; as long as `keys`."""

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Sequence[bytes]) -> None:
        """Apply one atomic batch: first the deletes, then the puts, each in order.

        Deleting what is not there is fine; of several puts of one key the last counts.
        """

    def begin_bulk(self) -> None:
        """Until `end_bulk`, batches may be kept less safely where that is quicker.

        A kill may take the last of them, whole ones and never one before another: for rows that can
        be had again.
        """

    def end_bulk(self) -> None:
        """All that was written is as safe as ever; so is what comes.  May be called any time."""

    def scan(
        self, start: bytes, end: bytes | None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with `start <= key < end` in key order, at most `limit`; `end` None: to the last.

        Writes during a scan do not disturb it; whether it shows them is not said.
        """

    def count(self, start: bytes, end: bytes) -> int:
        """How many keys there are with `start <= key < end`; looks at each of them."""

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """Of each range (start, end) what `scan` gives; fastest when they come in key order."""

    def scan_apart(self, starts: Sequence[bytes], ends: Sequence[bytes]) -> Found:
        """Pairs with `start <= key < end` of ranges in key order, none of which overlap.

        For many ranges of which few hold anything.
        """

    def bytes_on_disk(self) -> int:
        """Bytes the store takes, on disk when durable, else in memory (roughly)."""

    def wipe(self) -> None:
        """Remove every row; the store stays open."""

    def close(self) -> None:
        """Release files and locks; the store must not be used again.  May be called twice."""
