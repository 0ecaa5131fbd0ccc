"""The rows of one state partition in a dict, as a processor sees them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from holdfast.state.segments import SEGMENT_MS
from holdfast.state.store import Found, flat
from holdfast.types.columns.byte_columns import Parts, joined

__all__ = ["RowsView"]


class RowsView:
    """A `StoreView` over a dict of rows, and one of element rows."""

    def __init__(
        self,
        rows: Mapping[bytes, bytes | None],
        elements: Mapping[bytes, bytes | None] | None = None,
    ) -> None:
        self._rows = rows
        self._elements = {} if elements is None else elements

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._rows.get(k) for k in keys]

    def get_elements(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._elements.get(k) for k in keys]

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key, row in sorted(self._rows.items()):
            if row is not None and start <= key < end:
                yield key, row

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        order = sorted(k for k, row in self._rows.items() if row is not None)
        places = [(bisect_left(order, start), bisect_left(order, end)) for start, end in ranges]
        return [
            [(k, row) for k in order[first:last] if (row := self._rows[k]) is not None]
            for first, last in places
        ]

    def expired(self, before_start_ms: int, limit: int) -> list[bytes]:
        starts = {k: int.from_bytes(k[-8:], "big", signed=True) for k in self._rows}
        found = sorted((s, k) for k, s in starts.items() if s < before_start_ms)
        return [k for _, k in found[:limit]]

    def scan_apart(self, starts: Parts, ends: Parts) -> Found:
        return flat(self.scan_many(list(zip(joined(*starts), joined(*ends), strict=True))))

    def in_segments(self, start_ms: int, end_ms: int, limit: int) -> list[bytes]:
        first = -(-start_ms // SEGMENT_MS) * SEGMENT_MS
        return self.in_time(first, end_ms // SEGMENT_MS * SEGMENT_MS)[:limit]

    def in_time(self, start_ms: int, end_ms: int) -> list[bytes]:
        times = {
            k: int.from_bytes(k[-8:], "big", signed=True)
            for k, row in self._rows.items()
            if row is not None
        }
        return [k for _, k in sorted((t, k) for k, t in times.items() if start_ms <= t < end_ms)]
