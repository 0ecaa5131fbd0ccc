"""The last commit markers of changelogs, read from their ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from holdfast.state.changelog import MARKER_KEY, CommitMarker
from holdfast.transport.reader import Chunk, PartitionReader

__all__ = ["LogReader", "last_marker", "last_markers"]

_FIRST_LOOK = 256  # offsets; a marker is the last record of its transaction
_AT_ONCE = 8


class LogReader(Protocol):
    """Reads a range of the changelog."""

    def read(self, start: int, end: int, chunk_records: int = ...) -> Iterator[Chunk]:
        """Committed records of a range, in chunks."""


def last_markers(
    client: Mapping[str, str], changelog: str, partitions: int
) -> list[CommitMarker | None]:
    """The last commit markers by state partition; None where nothing was committed.

    Args:
        client: librdkafka properties.
        changelog: an existing topic.

    Raises:
        IncompatibleStatement: a marker of an unknown format.
        KafkaUnavailable, TopicMissing: the changelog cannot be read.
    """

    def look(partition: int) -> CommitMarker | None:
        reader = PartitionReader(client, changelog, partition)
        try:
            return last_marker(reader, *reader.bounds())
        finally:
            reader.close()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(look, range(partitions)))


def last_marker(reader: LogReader, start: int, end: int) -> CommitMarker | None:
    """The last commit marker in a range of a changelog; None: there is none.

    Searches further and further back: aborted transactions may lie behind it.
    """
    back, before = _FIRST_LOOK, end
    while before > start:
        since = max(start, end - back)
        found = _marker_between(reader, since, before)
        if found is not None:
            return found
        back, before = back * 16, since
    return None


def _marker_between(reader: LogReader, start: int, end: int) -> CommitMarker | None:
    last: bytes | None = None
    for chunk in reader.read(start, end):
        for key, value in zip(chunk.keys, chunk.values, strict=True):
            if key == MARKER_KEY and value is not None:
                last = value
    return None if last is None else CommitMarker.from_bytes(last)
