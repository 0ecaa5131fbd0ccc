"""A processor's view of a store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from holdfast.state.store import Found
from holdfast.state.table_store import TableStore
from holdfast.types.columns.byte_columns import Parts

__all__ = ["Lookup"]


class Lookup:
    """A `StoreView` of the rows before the batch that measures the time of reads."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self.seconds = 0.0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        start = time.perf_counter()
        rows = self._store.get_many(keys)
        self.seconds += time.perf_counter() - start
        return rows

    def get_elements(self, keys: Sequence[bytes]) -> list[bytes | None]:
        start = time.perf_counter()
        rows = self._store.get_elements(keys)
        self.seconds += time.perf_counter() - start
        return rows

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._store.scan(start, end)

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        start = time.perf_counter()
        rows = self._store.scan_many(ranges)
        self.seconds += time.perf_counter() - start
        return rows

    def scan_apart(self, starts: Parts, ends: Parts) -> Found:
        start = time.perf_counter()
        found = self._store.scan_apart(starts, ends)
        self.seconds += time.perf_counter() - start
        return found

    def expired(self, before_start_ms: int, limit: int) -> list[bytes]:
        return self._store.expired(before_start_ms, limit)

    def in_time(self, start_ms: int, end_ms: int) -> list[bytes]:
        return self._store.in_time(start_ms, end_ms)

    def in_segments(self, start_ms: int, end_ms: int, limit: int) -> list[bytes]:
        return self._store.in_segments(start_ms, end_ms, limit)
