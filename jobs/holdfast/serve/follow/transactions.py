"""Cuts records of a changelog into whole transactions: each ends in its commit marker."""

from __future__ import annotations

from dataclasses import replace

from holdfast.state.changelog import MARKER_KEY
from holdfast.transport.reader import Chunk

__all__ = ["Transactions"]


class Transactions:
    """Buffers the beginning of a transaction until its end has been read.

    A topic without commit markers has no such bounds: records are passed on at once.
    """

    def __init__(self, has_markers: bool) -> None:
        self._has_markers = has_markers
        self._kept: list[Chunk] = []

    @property
    def open(self) -> bool:
        """Whether the beginning of a transaction is buffered."""
        return bool(self._kept)

    def add(self, chunk: Chunk) -> Chunk | None:
        """All transactions that are now complete, as one chunk, or None."""
        if not self._has_markers:
            return chunk
        last = _last_marker(chunk)
        if last < 0:
            self._kept += [chunk] if len(chunk) else []
            return None
        whole = _joined([*self._kept, chunk.part(0, last + 1, chunk.offsets[last] + 1)])
        rest = chunk.part(last + 1, len(chunk), chunk.position)
        self._kept = [rest] if len(rest) else []
        return whole

    def rest(self, position: int) -> Chunk:
        """The buffered records, where a transaction is known to end whose marker was compacted."""
        kept, self._kept = self._kept, []
        return replace(_joined([*kept, Chunk([], [], [], [], position)]), position=position)


def _last_marker(chunk: Chunk) -> int:
    return next((i for i in reversed(range(len(chunk))) if chunk.keys[i] == MARKER_KEY), -1)


def _joined(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    whole = Chunk([], [], [], [], chunks[-1].position)
    for chunk in chunks:
        whole.keys += chunk.keys
        whole.values += chunk.values
        whole.offsets += chunk.offsets
        whole.timestamps += chunk.timestamps
    return whole
