"""The memory backend: lost with the process, restored from the changelog."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from holdfast.errors import Refused
from holdfast.state.store import Found, flat

__all__ = ["MemoryStore"]

_ROW_OVERHEAD = 150  # bytes of a dict entry and two bytes objects, without their content


class MemoryStore:
    """Rows in a dict; a scan sorts the keys on demand.

    Writes only collect new keys.  A scan merges them in: Python's sort merges two sorted runs in
    linear time.
    """

    durable = False

    def __init__(self) -> None:
        self.wipe()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self._rows.get, keys))

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Sequence[bytes]) -> None:
        rows = self._rows
        for key in deletes:
            old = rows.pop(key, None)
            if old is not None:
                self._bytes -= len(key) + len(old)
        for key, value in puts:
            old = rows.get(key)
            if old is None:
                self._new.append(key)
                self._bytes += len(key) + len(value)
            else:
                self._bytes += len(value) - len(old)
            rows[key] = value

    def begin_bulk(self) -> None:
        """Does nothing: a dict has no bulk mode."""

    def end_bulk(self) -> None:
        """Does nothing: no write is pending."""

    def scan(
        self, start: bytes, end: bytes | None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        order, rows = self._sorted(), self._rows
        first = bisect_left(order, start)
        last = len(order) if end is None else bisect_left(order, end)
        # By index: islice would iterate over all keys before the first.
        found = ((key, rows.get(key)) for key in map(order.__getitem__, range(first, last)))
        living = ((key, value) for key, value in found if value is not None)
        return islice(living, limit)

    def count(self, start: bytes, end: bytes) -> int:
        return sum(1 for _ in self.scan(start, end))

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        return [list(self.scan(start, end)) for start, end in ranges]

    def scan_apart(self, starts: Sequence[bytes], ends: Sequence[bytes]) -> Found:
        return flat(self.scan_many(list(zip(starts, ends, strict=True))))

    def copy_to(self, folder: Path) -> None:
        raise Refused("A store in memory has no files to copy.", action="use rocksdb.")

    def bytes_on_disk(self) -> int:
        return self._bytes + _ROW_OVERHEAD * len(self._rows)

    def wipe(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._order: list[bytes] = []  # sorted; may include deleted keys
        self._new: list[bytes] = []  # keys since the last scan, unsorted
        self._bytes = 0

    def close(self) -> None:
        self.wipe()

    def _sorted(self) -> list[bytes]:
        """All existing keys in order; a new list, so that running scans keep theirs."""
        if self._new or len(self._order) > 2 * len(self._rows) + 1000:
            known = dict.fromkeys(chain(self._order, self._new))
            self._order = sorted(filter(self._rows.__contains__, known))
            self._new = []
        return self._order
