"""Have a store and its changelog the same past?

A log may be cut and grow again beyond where a store stands: an unclean election of a leader, a
broker's disk that was put back from a backup.  Its end, its id and, on a disk that was put back,
the leader's epoch are then what they would be anyway.  Two witnesses lie in the log itself:

    the last record that the store has applied     the log
    --------------------------------------------   ------------------------------------------------
    is there, at its offset                        is the same up to there
    has another one in its place                   was cut
    was compacted                                  see the lineage of the last commit marker

The lineage of a commit marker tells who has written since which offset: each opening of a state
task is an epoch of its own.  A log whose lineage lacks the epoch of the store's last marker, or in
which a later epoch begins at or before the store's last record, was cut.  The last marker of a log
is never compacted.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Protocol

from holdfast.state.changelog import MARKER_KEY, CommitMarker, Lineage
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.transport.reader import Chunk

__all__ = ["compared", "continued", "digest", "witnessed"]

_EPOCHS_MAX = 16
_LOOK_BACK = 64  # records, for the last marker; then sixteen times as many, and so on


class LogReader(Protocol):
    """Reads a range of the changelog."""

    def read(self, start: int, end: int, chunk_records: int = ...) -> Iterator[Chunk]:
        """Committed records of a range, in chunks."""


def continued(marker: CommitMarker | None, offset: int) -> Lineage:
    """The lineage of an owner that goes on after a marker, at that end of the changelog."""
    before = marker.lineage if marker is not None else ()
    return (*before[1 - _EPOCHS_MAX :], (secrets.token_hex(6), offset))


def digest(key: bytes | None, value: bytes | None) -> str:
    """Tells a record from others that might lie at its offset."""
    lengths = ",".join(str(-1 if part is None else len(part)) for part in (key, value))
    whole = b"".join((lengths.encode(), b":", key or b"", value or b""))
    return hashlib.blake2b(whole, digest_size=8).hexdigest()


def witnessed(position: StorePosition, chunk: Chunk) -> StorePosition:
    """The position with the last record of a chunk as its witness."""
    if not len(chunk):
        return position
    told = digest(chunk.keys[-1], chunk.values[-1])
    return replace(position, witness_offset=chunk.offsets[-1], witness=told)


def compared(
    store: TableStore, reader: LogReader, bounds: tuple[int, int], chunk_records: int
) -> tuple[str, Iterator[Chunk]]:
    """Compares the pasts, before anything of the log is applied.

    Args:
        bounds: of the changelog: its start, and the end to read to.

    Returns:
        How they differ, empty if they do not, and what follows the store's position.
    """
    position, (start, end) = store.position, bounds
    assert position is not None, "a store without a position has no past"
    at = position.witness_offset
    if not start <= at < end:
        return "", reader.read(position.offset, end, chunk_records)
    read = reader.read(at, end, chunk_records)
    first = next(read, None)
    if first is not None and len(first) and first.offsets[0] == at:
        if digest(first.keys[0], first.values[0]) == position.witness:
            return "", chain([first.since(position.offset)], read)
        return f"another record lies at offset {at} than the last one it has applied", read
    differs = _by_lineage(store, at, _last_marker(reader, start, end))
    return differs, reader.read(position.offset, end, chunk_records)


def _by_lineage(store: TableStore, at: int, last: CommitMarker | None) -> str:
    """How the lineages differ; empty also where one of them is of a version that kept none."""
    if last is None or not last.lineage:
        return ""
    if not store.counted:
        return f"its unfinished restore ends at offset {at}, which was compacted since"
    if store.marker is None or not store.marker.lineage:
        return ""
    epoch = store.marker.lineage[-1][0]
    epochs = [name for name, _ in last.lineage]
    if epoch not in epochs:
        return f"the changelog does not know the owner {epoch} that its last commit is of"
    later = last.lineage[epochs.index(epoch) + 1 :]
    if later and later[0][1] <= at:
        return f"the changelog was written anew from offset {later[0][1]} on"
    return ""


def _last_marker(reader: LogReader, start: int, end: int) -> CommitMarker | None:
    span, before = _LOOK_BACK, end
    while before > start:
        since = max(start, end - span)
        found: bytes | None = None
        for chunk in reader.read(since, before):
            for key, value in zip(chunk.keys, chunk.values, strict=True):
                if key == MARKER_KEY:
                    found = value
        if found is not None:
            return CommitMarker.from_bytes(found)
        span, before = span * 16, since
    return None
