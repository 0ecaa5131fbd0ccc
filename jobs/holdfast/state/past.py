"""Checks whether a store and its changelog have the same history.

A log may be truncated and grow again beyond a store's position: by an unclean leader election, or
by a broker's disk restored from a backup.  The log's end, its topic id and, after a restored disk,
the leader's epoch do not show it.  Two witnesses are in the log itself:

    the last record that the store has applied     the log
    --------------------------------------------   ------------------------------------------------
    is in the log at its offset                    is the same up to there
    has been replaced by another record            was truncated
    was compacted                                  see the lineage of the last commit marker

The lineage of a commit marker lists the writers, each with its first offset: each opening of a
state task is a new epoch.  A log was truncated if its lineage lacks the epoch of the store's last
marker, or if a later epoch begins at or before the store's last record.  The last marker of a log
is never compacted.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from holdfast.state.changelog import CommitMarker, Lineage
from holdfast.state.markers import LogReader, last_marker
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.transport.reader import Chunk

__all__ = ["compared", "continued", "digest", "witnessed"]

_EPOCHS_MAX = 16


def continued(marker: CommitMarker | None, offset: int) -> Lineage:
    """The lineage of a new owner after a marker, at that end of the changelog."""
    before = marker.lineage if marker is not None else ()
    return (*before[1 - _EPOCHS_MAX :], (secrets.token_hex(6), offset))


def digest(key: bytes | None, value: bytes | None) -> str:
    """A digest that distinguishes a record from others at the same offset."""
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
    """Compares the histories before any record of the log is applied.

    Args:
        bounds: the changelog's start, and the end to read to.

    Returns:
        The difference, empty if there is none, and the records after the store's position.
    """
    position, (start, end) = store.position, bounds
    assert position is not None, "a store without a position has no history"
    at = position.witness_offset
    if not start <= at < end:
        return "", reader.read(position.offset, end, chunk_records)
    read = reader.read(at, end, chunk_records)
    first = next(read, None)
    if first is not None and len(first) and first.offsets[0] == at:
        if digest(first.keys[0], first.values[0]) == position.witness:
            return "", chain([first.since(position.offset)], read)
        return f"another record lies at offset {at} than the last one it has applied", read
    differs = _by_lineage(store, at, last_marker(reader, start, end))
    return differs, reader.read(position.offset, end, chunk_records)


def _by_lineage(store: TableStore, at: int, last: CommitMarker | None) -> str:
    """The difference of the lineages; empty also if one is from a version without lineage."""
    if last is None or not last.lineage:
        return ""
    if not store.counted:
        return f"its unfinished restore ends at offset {at}, which was compacted since"
    if store.marker is None or not store.marker.lineage:
        return ""
    epoch = store.marker.lineage[-1][0]
    epochs = [name for name, _ in last.lineage]
    if epoch not in epochs:
        return f"the changelog does not know the owner {epoch} of its last commit"
    later = last.lineage[epochs.index(epoch) + 1 :]
    if later and later[0][1] <= at:
        return f"the changelog was rewritten from offset {later[0][1]} on"
    return ""
