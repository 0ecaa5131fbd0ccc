"""Reading records of a changelog partition for a survey: small ranges, the last marker, or all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.compaction.survey.sampling import Counts, OffsetSpan
from holdfast.errors import IncompatibleStatement
from holdfast.state.changelog import MARKER_KEY, CommitMarker
from holdfast.state.elements import is_element, is_row, state_key_of
from holdfast.state.times import window_start_ms
from holdfast.transport.reader import Chunk, PartitionReader

__all__ = ["Expiry", "RecordReader", "Tail"]

# A range is some hundred records: what the client fetches beyond it is discarded.
_SMALL = {"fetch.message.max.bytes": "65536", "queued.min.messages": "1000"}
_CHUNK = 10_000
_TAILS = (64, 4_096, 65_536)  # offsets; a commit marker ends every transaction: 64 mostly do
_STEP_MAX = 2  # offsets between two records: one transaction marker may lie between them


@dataclass(frozen=True)
class Expiry:
    """Windows that start before `before_ms` are past retention; None: no windows, or unknown.

    Attributes:
        known: whether expiry is known; a table without windows has no expired records.
    """

    before_ms: int | None = None
    known: bool = True

    def holds(self, key: bytes) -> bool:
        """Whether the window of a row's, or an element's, key is past retention."""
        return self.before_ms is not None and window_start_ms(state_key_of(key)) < self.before_ms


@dataclass(frozen=True)
class Tail:
    """The end of a partition.

    Attributes:
        marker: the last commit marker, None when the end holds none.
        foreign: whether the end holds records that are not Holdfast's.
        records: how many records were read to find it.
    """

    marker: CommitMarker | None
    foreign: bool
    records: int


@dataclass
class _Keys:
    """The keys whose last record so far has a value."""

    live: set[bytes] = field(default_factory=set)

    def see(self, chunk: Chunk) -> None:
        for key, value in zip(chunk.keys, chunk.values, strict=True):
            if key is None or key == MARKER_KEY:
                continue
            if value is None:
                self.live.discard(key)
            else:
                self.live.add(key)


class RecordReader:
    """Owns a consumer of one changelog partition, and counts what it read."""

    def __init__(self, client: Mapping[str, str], topic: str, partition: int) -> None:
        """Sends nothing before the first call."""
        self._client = dict(client)
        self._place = (topic, partition)
        self._small = PartitionReader(self._client | _SMALL, topic, partition)
        self.records_read = 0

    def tail(self, start: int, end: int) -> Tail:
        """The last commit marker before `end`, searched for further and further back.

        Raises:
            TopicMissing, KafkaUnavailable: the topic is gone, or no broker answered in time.
        """
        seen = 0
        for offsets in _TAILS:
            low = max(start, end - offsets)
            chunks = list(self._read(OffsetSpan(low, end)))
            seen = sum(map(len, chunks))
            marker = next((m for c in reversed(chunks) if (m := _last_marker(c))), None)
            foreign = any(_foreign(key) for chunk in chunks for key in chunk.keys)
            if marker is not None or foreign or low == start:
                return Tail(marker, foreign, seen)
        return Tail(None, False, seen)

    def count(self, span: OffsetSpan, records_max: int, expiry: Expiry) -> Counts:
        """Counts the records of `span`, at most about the first `records_max` of them.

        Raises:
            DataLoss: the range no longer exists.
            TopicMissing, KafkaUnavailable: the topic is gone, or no broker answered in time.
        """
        found, counted = [], 0
        for chunk in self._read(span, min(records_max, _CHUNK)):
            found.append(chunk)
            counted += len(chunk)
            if counted >= records_max:
                span = OffsetSpan(span.start, min(span.end, chunk.position))
                break
        return _counted(span, found, expiry)

    def count_all(self, span: OffsetSpan, expiry: Expiry) -> tuple[Counts, int]:
        """Reads all of `span`: counts its records, and the keys whose last record has a value.

        Raises:
            DataLoss: the range no longer exists.
            TopicMissing, KafkaUnavailable: the topic is gone, or no broker answered in time.
        """
        keys, found = _Keys(), Counts(span)
        whole = PartitionReader(self._client, *self._place)
        try:
            for chunk in whole.read(span.start, span.end):
                self.records_read += len(chunk)
                keys.see(chunk)
                found = _added(found, _counted(span, [chunk], expiry))
        finally:
            whole.close()
        return found, len(keys.live)

    def close(self) -> None:
        """Leave the broker."""
        self._small.close()

    def _read(self, span: OffsetSpan, chunk: int = _CHUNK) -> Iterator[Chunk]:
        for found in self._small.read(span.start, span.end, chunk):
            self.records_read += len(found)
            yield found


def _last_marker(chunk: Chunk) -> CommitMarker | None:
    for key, value in zip(reversed(chunk.keys), reversed(chunk.values), strict=True):
        if key == MARKER_KEY and value is not None:
            try:
                return CommitMarker.from_bytes(value)
            except IncompatibleStatement:
                return None
    return None


def _foreign(key: bytes | None) -> bool:
    return not is_row(key) and key != MARKER_KEY


def _counted(span: OffsetSpan, chunks: list[Chunk], expiry: Expiry) -> Counts:
    records = tombstones = expired = markers = size = marker_size = elements = 0
    holes, last = False, span.start - 1
    for chunk in chunks:
        records += len(chunk)
        for key, value, offset in zip(chunk.keys, chunk.values, chunk.offsets, strict=True):
            each = len(key or b"") + len(value or b"")
            size += each
            holes, last = holes or offset - last > _STEP_MAX, offset
            if key == MARKER_KEY:
                markers, marker_size = markers + 1, marker_size + each
            elif value is None:
                tombstones += 1
            elif key is not None and is_row(key) and expiry.holds(key):
                expired += 1
            elif key is not None and is_element(key):
                elements += 1
    holes = holes or span.end - last > _STEP_MAX
    return Counts(span, records, tombstones, expired, markers, size, marker_size, holes, elements)


def _added(one: Counts, two: Counts) -> Counts:
    return Counts(
        one.span,
        one.records + two.records,
        one.tombstones + two.tombstones,
        one.expired + two.expired,
        one.markers + two.markers,
        one.bytes + two.bytes,
        one.marker_bytes + two.marker_bytes,
        one.holes or two.holes,
        one.elements + two.elements,
    )
