r"""The progress of a query by source topic partition, for progress outside state partitions.

The records of a query without state, and the dead letters of any query, progress by source topic
partition and not by state partition.  Both commit their progress in the transaction of their
records, as a commit marker: one record of the compacted topic `<application.id>-<query>-progress`,
in topic partition (source topic partition mod its partitions).

    b"\x00holdfast.commit.<source topic partition>"         a query without state
    b"\x00holdfast.dead-letter.<source topic partition>"    its dead letters
    b"\x00holdfast.dead-letter.<n>.<source topic partition>"    dead letters of its input n, n >= 1

Consumer group offsets would not do: a group coordinator that is killed at the wrong moment may keep
a committed transaction's offsets pending for ever (ADR 8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from holdfast.errors import IncompatibleStatement
from holdfast.transport.reader import PartitionReader

__all__ = ["PROGRESS_CONFIG", "Of", "SourceProgress", "home_partition", "progress_of"]

PROGRESS_CONFIG = {
    "cleanup.policy": "compact",
    # Readers read all of it, and only closed segments are compacted.
    "segment.bytes": str(1 << 20),
    "message.timestamp.type": "LogAppendTime",
}
_FORMAT_VERSION = 1
_FIRST_LOOK = 256  # offsets from the end: the marker is the last record of its transaction


class Of(StrEnum):
    """The kind of records whose progress a marker holds."""

    RECORDS = "commit"
    DEAD_LETTERS = "dead-letter"

    def key(self, source_partition: int, side: int = 0) -> bytes:
        """The record key of the marker; `side` is the number of the query's input."""
        of_side = f"{side}." if side else ""
        return f"\x00holdfast.{self.value}.{of_side}{source_partition}".encode()


@dataclass(frozen=True)
class SourceProgress:
    """A commit marker by source topic partition.

    Attributes:
        offset: every source record before it has been processed.
        records: source offsets processed, all transactions together.
        facts: `statement_facts` of the query; empty for dead letters and in earlier versions.
        topic_id: the id of the topic to which the offset belongs; empty in earlier versions.
    """

    topic: str
    partition: int
    offset: int
    records: int = 0
    format_version: int = _FORMAT_VERSION
    facts: str = ""
    topic_id: str = ""

    def to_bytes(self) -> bytes:
        """JSON in UTF-8."""
        fields = asdict(self)
        if not self.topic_id:
            del fields["topic_id"]
        return json.dumps(fields, separators=(",", ":")).encode()

    def of_other(self, topic_id: str) -> bool:
        """Whether the offset is known to belong to another topic than the one with that id."""
        return bool(self.topic_id and topic_id and self.topic_id != topic_id)

    @staticmethod
    def from_bytes(data: bytes) -> SourceProgress:
        """The inverse of `to_bytes`.

        Raises:
            IncompatibleStatement: not a commit marker, or of an unknown format version.
        """
        try:
            found = SourceProgress(**json.loads(data))
        except (ValueError, TypeError) as error:
            raise _unreadable(f"{len(data)} bytes: {error!r}") from error
        if found.format_version != _FORMAT_VERSION:
            raise _unreadable(f"format version {found.format_version}, not {_FORMAT_VERSION}")
        return found


def home_partition(source_partition: int, partitions: int) -> int:
    """The progress topic's partition for a source topic partition's markers.

    The source topic may have more partitions than the progress topic was created with.
    """
    return source_partition % partitions


def progress_of(
    client: Mapping[str, str],
    topic: str,
    partitions: int,
    of: Of,
    source_partition: int,
    side: int = 0,
) -> SourceProgress | None:
    """The last committed marker; None if there is none.

    Args:
        topic: the progress topic, `partitions` its number of partitions.

    Raises:
        IncompatibleStatement: the record is not a valid marker.
        KafkaUnavailable, TopicMissing: the marker cannot be read.
    """
    reader = PartitionReader(client, topic, home_partition(source_partition, partitions))
    key = of.key(source_partition, side)
    try:
        start, end = reader.bounds()
        recent = max(start, end - _FIRST_LOOK)
        found = _last(reader, key, recent, end) or _last(reader, key, start, recent)
    finally:
        reader.close()
    return None if found is None else SourceProgress.from_bytes(found)


def _last(reader: PartitionReader, key: bytes, start: int, end: int) -> bytes | None:
    last: bytes | None = None
    for chunk in reader.read(start, end) if start < end else ():
        for found, value in zip(chunk.keys, chunk.values, strict=True):
            if found == key and value is not None:
                last = value
    return last


def _unreadable(why: str) -> IncompatibleStatement:
    return IncompatibleStatement(
        f"A commit marker of a progress topic cannot be read: {why}.",
        cause="something else writes to the topic, or a newer Holdfast wrote it.",
        action="revoke other programs' right to write, or run that version.",
    )
