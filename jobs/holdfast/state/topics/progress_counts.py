"""Counts of processed and set-aside records in a query's progress topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.state.changelog import CommitMarker
from holdfast.state.topics.source_progress import Of, SourceProgress
from holdfast.transport.reader import Chunk
from holdfast.transport.record_count import TopicFollower
from holdfast.types.left_out import LeftOut

__all__ = ["Counted", "ProgressCounts", "left_out_with_state", "left_out_without_state"]

_PREFIXES = {of: f"\x00holdfast.{of.value}.".encode() for of in Of}


@dataclass(frozen=True)
class Counted:
    """Totals over all source topic partitions since the query's first batch.

    Attributes:
        offsets: source offsets that a query without state has processed; 0 for one with state.
        dead_letters: records that were set aside.
    """

    offsets: int = 0
    dead_letters: int = 0


class ProgressCounts:
    """Follows one progress topic; owns the last marker of each key.  Not thread-safe."""

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        """Sends nothing before the first call."""
        self._follower = TopicFollower(client, topic, self._take)
        self._markers: dict[bytes, bytes] = {}

    def counted(self) -> Counted:
        """The current totals.

        Raises:
            TopicMissing: the topic does not exist.
            IncompatibleStatement: a marker cannot be read.
            KafkaUnavailable: the brokers did not answer.
        """
        self._follower.read_on()
        return Counted(self._sum(Of.RECORDS), self._sum(Of.DEAD_LETTERS))

    def close(self) -> None:
        """Closes the connection to the brokers."""
        self._follower.close()

    def _take(self, chunk: Chunk) -> None:
        for key, value in zip(chunk.keys, chunk.values, strict=True):
            if key is not None and value is not None:
                self._markers[key] = value

    def _sum(self, of: Of) -> int:
        prefix = _PREFIXES[of]
        return sum(
            SourceProgress.from_bytes(value).records
            for key, value in self._markers.items()
            if key.startswith(prefix)
        )


def left_out_with_state(markers: Iterable[CommitMarker], counted: Counted) -> LeftOut:
    """The records left out by a query with state, from the last markers of its partitions."""
    known = list(markers)
    return LeftOut(
        records=sum(marker.records for marker in known) + counted.dead_letters,
        late=sum(marker.dropped_late for marker in known),
        null_key=sum(marker.dropped_null_key for marker in known),
        dead_letters=counted.dead_letters,
    )


def left_out_without_state(counted: Counted) -> LeftOut:
    """The records left out by a query without state, which drops none."""
    return LeftOut(records=counted.offsets, dead_letters=counted.dead_letters)
