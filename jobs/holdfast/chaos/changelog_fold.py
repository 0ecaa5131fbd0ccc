"""What a changelog topic says in the end: live rows, and each partition's last commit marker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["ChangelogFold"]

_ROW, _MARKER = b"\x01", b"\x00"  # first byte of a key


class ChangelogFold:
    """Owns the last record of every key.  Feed it each topic partition in offset order.

    Args:
        partitions: of the topic, one per state partition.
    """

    def __init__(self, partitions: Iterable[int]) -> None:
        self._live: set[tuple[int, bytes]] = set()
        self._markers: dict[int, dict[str, Any] | None] = dict.fromkeys(partitions)

    def update(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """One record of the changelog.

        Raises:
            ValueError: a commit marker that is not JSON.
        """
        if key is None:
            return
        if key.startswith(_MARKER) and value is not None:
            self._markers[partition] = json.loads(value)
        elif key.startswith(_ROW) and value is None:
            self._live.discard((partition, key))
        elif key.startswith(_ROW):
            self._live.add((partition, key))

    @property
    def rows(self) -> int:
        """Keys that are there in the end."""
        return len(self._live)

    def dropped_late(self) -> int | None:
        """Records dropped as late over all state partitions; None where a marker does not say."""
        total = 0
        for marker in filter(None, self._markers.values()):
            if "dropped_late" not in marker:
                return None
            total += int(marker["dropped_late"])
        return total

    def unlevel(self, input_bounds: Mapping[int, tuple[int, int]]) -> Iterator[str]:
        """State partitions that have not taken in the whole input, in words."""
        wanted = {p: end for p, (start, end) in input_bounds.items() if end > start}
        for partition, marker in sorted(self._markers.items()):
            ends = dict(marker["source"]["end"]) if marker is not None else {}
            if any(ends.get(p, 0) < end for p, end in wanted.items()):
                yield f"state partition {partition}: has {ends}, the input ends at {wanted}"
