"""The facts of one partition, from broker metadata, its records, and its store's own count."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.compaction.survey.facts import Estimate, How, PartitionFacts
from holdfast.compaction.survey.ground import Ground
from holdfast.compaction.survey.records import Expiry, RecordReader
from holdfast.compaction.survey.sampling import Counts, OffsetSpan, sample, total
from holdfast.transport.cluster.view import PartitionState, Place

__all__ = ["Sampled", "partition_facts", "without_leader"]

_NONE = Estimate.unknown()
_ESTIMATES = ("records", "live_keys", "tombstones", "expired", "record_bytes", "dirty_ratio",
              "segments", "active_bytes")  # fmt: skip


@dataclass(frozen=True)
class Sampled:
    """The result of reading a partition.

    Attributes:
        ranges: the ranges read, in order; a single one when everything was read.
        live_keys: counted when everything was read.
    """

    span: OffsetSpan
    ranges: Sequence[Counts]
    live_keys: Estimate
    expiry: Expiry

    def live(self, rows: Estimate) -> Estimate:
        """The live keys: counted, or the store's rows and the sampled elements, each written once.

        Args:
            rows: the store's own count, unknown without one.
        """
        if self.live_keys.known or not rows.known or not any(c.elements for c in self.ranges):
            return self.live_keys if self.live_keys.known else rows
        elements = self.total(lambda c: c.elements)
        return Estimate(rows.value + elements.value, rows.error + elements.error, elements.how)

    def total(self, what: Callable[[Counts], int]) -> Estimate:
        """How many of `what` the whole partition holds."""
        return total(self.span, self.ranges, what)

    @property
    def written_density(self) -> float:
        """Records per offset in an uncleaned log: transaction markers take offsets, too."""
        whole = [c for c in self.ranges if not c.holes]
        offsets = sum(c.span.offsets for c in whole)
        return sum(c.records for c in whole) / offsets if offsets else 1.0

    @staticmethod
    def unreadable(span: OffsetSpan) -> Sampled:
        """The result for a partition none of whose records can be read."""
        return Sampled(span, (), _NONE, Expiry(known=False))

    @staticmethod
    def of(
        reader: RecordReader, span: OffsetSpan, records_max: int | None, expiry: Expiry
    ) -> Sampled:
        """Reads at most about `records_max` records; None: all of them.

        Raises:
            DataLoss, TopicMissing, KafkaUnavailable: from the reader.
        """
        if records_max is None or span.offsets <= records_max:
            counts, live = reader.count_all(span, expiry)
            return Sampled(span, [counts], Estimate(float(live)), expiry)
        chance = random.Random(f"{span.start}-{span.end}")  # the same log gives the same sample
        ranges = sample(span, records_max, lambda s, n: reader.count(s, n, expiry), chance)
        return Sampled(span, ranges, _NONE, expiry)


def partition_facts(
    ground: Ground, place: Place, sampled: Sampled, rows: Estimate, stream_time_ms: int
) -> PartitionFacts:
    """All facts of one topic partition that has a leader.

    Args:
        rows: the store's own count, unknown without one.
        stream_time_ms: the stream time in its last commit marker, -1 without one.
    """
    records = sampled.total(lambda c: c.records)
    state = ground.states[place[0]].partitions[place[1]]
    size = ground.bytes_of(place)
    each = _each(size, records)
    offsets_per_s, window_s = ground.written(place)
    rate = offsets_per_s * sampled.written_density
    shape = _shape(ground, place, sampled, each.value)
    return PartitionFacts(
        partition=place[1],
        leader=state.leader,
        replicas=state.replicas,
        in_sync=state.in_sync,
        bytes=size,
        start=sampled.span.start,
        end=sampled.span.end,
        records=records,
        live_keys=sampled.live(rows),
        tombstones=sampled.total(lambda c: c.tombstones),
        expired=sampled.total(lambda c: c.expired) if sampled.expiry.known else _NONE,
        record_bytes=each,
        dirty_ratio=shape.dirty_ratio,
        segments=shape.segments,
        active_bytes=shape.active_bytes,
        write_records_per_s=rate,
        write_bytes_per_s=rate * each.value,
        rate_window_s=window_s,
        stream_time_ms=stream_time_ms,
        last_write_ms=ground.newest[place].timestamp_ms,
        markers=sampled.total(lambda c: c.markers),
        marker_bytes=_marker_bytes(size, sampled),
        unstable=max(0, ground.high[place] - sampled.span.end),
    )


def without_leader(partition: int, state: PartitionState) -> PartitionFacts:
    """The facts of a partition without a leader."""
    unknown: dict[str, Any] = dict.fromkeys(_ESTIMATES, _NONE)
    return PartitionFacts(
        partition=partition,
        leader=state.leader,
        replicas=state.replicas,
        in_sync=state.in_sync,
        bytes=0,
        start=0,
        end=0,
        **unknown,
    )


def _each(size: int, records: Estimate) -> Estimate:
    """Bytes of one record on disk, including indexes and aborted records."""
    if not records.known or records.value <= 0:
        return _NONE
    mean = size / records.value
    return Estimate(mean, mean * records.error / records.value, records.how)


def _marker_bytes(size: int, sampled: Sampled) -> Estimate:
    """Bytes of one commit marker on disk, assuming that it compresses as well as the rows."""
    every = sampled.total(lambda c: c.bytes)
    markers = sampled.total(lambda c: c.markers)
    if every.value <= 0 or markers.value <= 0:
        return _NONE
    plain = sampled.total(lambda c: c.marker_bytes).value / markers.value
    return Estimate(plain * size / every.value, how=How.DERIVED)


@dataclass(frozen=True)
class _Shape:
    """How a log is split into segments, and how much of it is dirty."""

    dirty_ratio: Estimate
    segments: Estimate
    active_bytes: Estimate


def _shape(ground: Ground, place: Place, sampled: Sampled, record_bytes: float) -> _Shape:
    view = ground.view_of(place)
    log = view.log(*place) if view is not None else None
    if view is None or log is None or not log.segments:
        segment_bytes = int(ground.settings[place[0]]["segment.bytes"].value)
        return _derived(ground.bytes_of(place), segment_bytes, sampled, record_bytes)
    return _Shape(
        Estimate(log.dirty_ratio(view.cleaned_to(*place))),
        Estimate(float(len(log.segments))),
        Estimate(float(log.active_bytes)),
    )


def _derived(size: int, segment_bytes: int, sampled: Sampled, record_bytes: float) -> _Shape:
    """Estimates without files: segments fill up in turn, and holes show what was cleaned."""
    segments = max(1, math.ceil(size / segment_bytes))
    active = size - (segments - 1) * segment_bytes
    closed = size - active
    dirty = max(0.0, _after_holes(sampled) * record_bytes - active)
    ratio = min(1.0, dirty / closed) if closed else 0.0
    error = 1.0 / len(sampled.ranges) if closed and sampled.ranges else 0.0
    return _Shape(
        Estimate(ratio, error, How.DERIVED) if sampled.ranges or not closed else _NONE,
        Estimate(float(segments), how=How.DERIVED),
        Estimate(float(active), how=How.DERIVED),
    )


def _after_holes(sampled: Sampled) -> float:
    """The records behind the last hole, which the cleaner has not cleaned."""
    holes = [n for n, c in enumerate(sampled.ranges) if c.holes]
    after = sampled.ranges[holes[-1] + 1 :] if holes else sampled.ranges
    if not after:
        return 0.0
    begin = sampled.ranges[holes[-1]].span.end if holes else sampled.span.start
    return total(OffsetSpan(begin, sampled.span.end), after, lambda c: c.records).value
