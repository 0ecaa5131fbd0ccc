"""The last commit marker of each state partition, read from the end of its changelog."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from holdfast.state.changelog import MARKER_KEY, CommitMarker
from holdfast.transport.reader import PartitionReader

__all__ = ["last_markers"]

_FIRST_LOOK = 256  # offsets; a marker is the last record of its transaction
_AT_ONCE = 8


def last_markers(
    client: Mapping[str, str], changelog: str, partitions: int
) -> list[CommitMarker | None]:
    """By state partition; None where nothing was ever committed.

    Args:
        client: librdkafka properties.
        changelog: an existing topic.

    Raises:
        IncompatibleStatement: a marker of an unknown format.
        KafkaUnavailable, TopicMissing: it cannot be read.
    """

    def look(partition: int) -> CommitMarker | None:
        reader = PartitionReader(client, changelog, partition)
        try:
            return _last_marker(reader)
        finally:
            reader.close()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(look, range(partitions)))


def _last_marker(reader: PartitionReader) -> CommitMarker | None:
    """Looks back further and further: aborted transactions may lie behind the last marker."""
    start, end = reader.bounds()
    back = _FIRST_LOOK
    while start < end:
        found = _marker_between(reader, max(start, end - back), end)
        if found is not None or end - back <= start:
            return found
        back *= 16
    return None


def _marker_between(reader: PartitionReader, start: int, end: int) -> CommitMarker | None:
    last: bytes | None = None
    for chunk in reader.read(start, end):
        for key, value in zip(chunk.keys, chunk.values, strict=True):
            if key == MARKER_KEY and value is not None:
                last = value
    return None if last is None else CommitMarker.from_bytes(last)
