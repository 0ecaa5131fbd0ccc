"""The model of a changelog: what a cleaning leaves, what it costs, and how it grows until the next.

Sources: Kafka's documentation of log compaction and of the topic and broker settings; KIP-58
(min.compaction.lag.ms), KIP-354 (max.compaction.lag.ms), KIP-534 (tombstones and transaction
markers stay for delete.retention.ms after the first cleaning that sees them); the broker's cleaner
itself (`LogCleanerManager.cleanableOffsets`, `Cleaner.doClean`).  Bytes are of one replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.compaction.plan.plan import Cost
from holdfast.compaction.survey.facts import PartitionFacts, RestoreFacts, TopicFacts
from holdfast.compaction.survey.upkeep import Upkeep

__all__ = [
    "Size",
    "Work",
    "after_cleaning",
    "before_cleaning",
    "cleaner_work",
    "core",
    "cost",
    "daily_io",
    "dirty_bytes",
    "restore_seconds",
    "tombstone_bytes",
    "worst_moment",
]

# A rate seen over less time than this may have been a burst: the rest of the time counts as
# quiet, so that the rate is what came in during the last hour.
_STEADY_S = 3_600.0
_CONTROL_BYTES = 78  # a transaction marker is a batch of its own
_TOMBSTONE = 0.5  # share of a row: the key and its part of the batch, no value
_NEVER_CLEANED = 0.99  # a log this dirty has not been cleaned yet
_HORIZON_S = 30 * 86_400.0  # how far ahead the worst moment is searched for


@dataclass(frozen=True)
class Size:
    """Bytes on disk and data records; fractions are estimates, rounded where they are shown."""

    bytes: float
    records: float

    def least(self, other: Size) -> Size:
        return Size(min(self.bytes, other.bytes), min(self.records, other.records))

    def most(self, other: Size) -> Size:
        return Size(max(self.bytes, other.bytes), max(self.records, other.records))

    def plus(self, other: Size) -> Size:
        return Size(self.bytes + other.bytes, self.records + other.records)

    def minus(self, other: Size) -> Size:
        """The difference, never below zero."""
        return Size(max(0.0, self.bytes - other.bytes), max(0.0, self.records - other.records))


@dataclass(frozen=True)
class Work:
    """The cleaner's work on one partition: bytes read and written, passes over the log."""

    read: float = 0.0
    written: float = 0.0
    passes: int = 0


def before_cleaning(partition: PartitionFacts) -> Size:
    """The partition's present size."""
    return Size(partition.bytes, max(0.0, partition.records.value))


def dirty_bytes(partition: PartitionFacts, *, roll: bool) -> float:
    """Bytes that a cleaning now would look into for the first time.

    A record that was cleaned before goes only when a dirty record of its key has come since, so no
    cleaning wins more than this.
    """
    active = _active(partition)
    if not partition.dirty_ratio.known:
        return partition.bytes if roll else partition.bytes - active
    ratio = min(1.0, max(0.0, partition.dirty_ratio.value))
    return ratio * (partition.bytes - active) + (active if roll else 0.0)


def core(partition: PartitionFacts) -> Size:
    """The part no cleaning removes: a record per live key, tombstones, commit marker, transactions.

    All tombstones and transaction markers count: the first cleaning that sees them only notes when
    they may go, `delete.retention.ms` later (KIP-534).  Where live keys are unknown, the whole log
    counts.
    """
    now = before_cleaning(partition)
    if not partition.live_keys.known or not now.records:
        return now
    return _needed(partition).most(_clean(partition, roll=True)).least(now)


def after_cleaning(partition: PartitionFacts, upkeep: Upkeep, *, roll: bool) -> Size:
    """The partition after one cleaning, without what the job writes meanwhile.

    Without a roll the active segment stays as it is; records younger than
    `min.compaction.lag.ms` stay either way (KIP-58).
    """
    now = before_cleaning(partition)
    if not partition.live_keys.known or not now.records:
        return now
    stays = _part(partition, max(_withheld(partition, upkeep), 0.0 if roll else _active(partition)))
    kept = stays.plus(_needed(partition).least(now.minus(stays)))
    return kept.most(_clean(partition, roll=roll)).least(now)


def cleaner_work(partition: PartitionFacts, after: Size, keys_per_pass: int, *, roll: bool) -> Work:
    """The bytes that the cleaner reads and writes.

    It reads the dirty part for its map of offsets, then the log up to the end of that part, and
    writes what stays.  If the map does not hold all distinct keys of the dirty part, the cleaner
    needs another pass over the log for every further map full of keys.
    """
    closed = partition.bytes - (0.0 if roll else _active(partition))
    dirty = dirty_bytes(partition, roll=roll)
    keys = min(partition.live_keys.value + partition.tombstones.value, partition.records.value)
    passes = max(1, -int(-keys // keys_per_pass))
    # The share of the log that is clean grows from pass to pass, evenly.
    before, left = closed - dirty, min(after.bytes, closed)
    grown = sum(before + (left - before) * done / passes for done in range(passes))
    written = sum(before + (left - before) * (done + 1) / passes for done in range(passes))
    return Work(2 * dirty + max(0.0, grown), max(0.0, written), passes)


def worst_moment(partition: PartitionFacts, upkeep: Upkeep, kept: Size) -> Size:
    """The partition right before a cleaning, at its largest within the next 30 days.

    The cleaner comes when the closed dirty segments exceed `min.cleanable.dirty.ratio` of clean and
    closed dirty bytes: dirty > kept × ratio / (1 − ratio), or when the oldest of them is older than
    `max.compaction.lag.ms` (KIP-354).  Up to one more segment is active, and records younger than
    `min.compaction.lag.ms` are not cleaned.
    """
    rate = _rate(partition).bytes
    if rate <= 0:
        return kept
    dirty = _dirt(rate, upkeep, kept.bytes) + _segment(rate, upkeep)
    dirty += rate * upkeep.min_lag_ms / 1000
    seconds = min(dirty / rate, _HORIZON_S)
    return kept.plus(Size(rate * seconds, _rate(partition).records * seconds))


def daily_io(partition: PartitionFacts, upkeep: Upkeep, kept: Size) -> float:
    """Bytes that the cleaner reads and writes a day with these settings.

    Every cleaning reads new records twice and remaining records once, and writes what remains.
    """
    rate = _rate(partition).bytes
    if rate <= 0:
        return 0.0
    between = max(1.0, _dirt(rate, upkeep, kept.bytes), _segment(rate, upkeep))
    return rate * 86_400 * 2 * (1 + kept.bytes / between)


def tombstone_bytes(partition: PartitionFacts) -> float:
    """The share of tombstones in what no cleaning removes."""
    if not partition.tombstones.known or not partition.live_keys.known:
        return 0.0
    part = _TOMBSTONE * partition.tombstones.value
    return core(partition).bytes * part / (partition.live_keys.value + part + 1)


def cost(topic: TopicFacts, sizes: Sequence[Size]) -> Cost:
    """The cost of a topic whose partitions have these sizes."""
    restore_s = restore_seconds(topic, [size.records for size in sizes])
    return Cost(round(sum(size.bytes for size in sizes)), round(restore_s, 6))


def restore_seconds(
    topic: TopicFacts, records: Sequence[float], processes: int | None = None
) -> float:
    """A full restore of partitions with these numbers of records.

    Scaled from the surveyed restore, whose rate may have been measured; the model's is not.

    Args:
        processes: how many restore side by side; None: as many as now.
    """
    restore = topic.restore
    now = _modelled_s(restore, [p.records.value for p in topic.partitions])
    scale = restore.seconds / now if now > 0 and restore.seconds > 0 else 1.0
    if processes is not None:
        restore = replace(restore, processes=processes)
    return scale * _modelled_s(restore, records)


def _modelled_s(restore: RestoreFacts, records: Sequence[float]) -> float:
    """Processes restore partitions side by side, each one partition at a time."""
    if restore.records_per_s <= 0:
        return 0.0
    share = max(sum(records) / max(1, restore.processes), max(records, default=0.0))
    return share / restore.records_per_s


def _needed(partition: PartitionFacts) -> Size:
    live, tombstones = partition.live_keys.value, partition.tombstones.value
    row = _row_bytes(partition)
    marker = partition.marker_bytes.value if partition.marker_bytes.known else row
    data = (live + _TOMBSTONE * tombstones) * row + marker
    return Size(data + _CONTROL_BYTES * _transactions(partition), live + tombstones + 1)


def _transactions(partition: PartitionFacts) -> float:
    """Transaction markers in the log: each takes an offset that no data record has."""
    gaps = max(0.0, partition.end - partition.start - partition.records.value)
    if partition.markers.known:
        return min(gaps, partition.markers.value)
    dirty = partition.dirty_ratio
    # In a cleaned log most gaps come from removed records.
    return gaps if not dirty.known or dirty.value >= _NEVER_CLEANED else 0.0


def _row_bytes(partition: PartitionFacts) -> float:
    """Bytes on disk of a row; commit markers and transaction markers do not count as rows."""
    records, markers = partition.records.value, partition.markers
    if markers.known and partition.marker_bytes.known:
        rows = records - markers.value - (1 - _TOMBSTONE) * partition.tombstones.value
        data = partition.bytes - markers.value * partition.marker_bytes.value
        data -= _CONTROL_BYTES * _transactions(partition)
        if rows > 0 and data > 0:
            return data / rows
    if partition.record_bytes.known and partition.record_bytes.value > 0:
        return partition.record_bytes.value
    return partition.bytes / records


def _clean(partition: PartitionFacts, *, roll: bool) -> Size:
    """The part that stays at least: everything that is not dirty."""
    return before_cleaning(partition).minus(_part(partition, dirty_bytes(partition, roll=roll)))


def _part(partition: PartitionFacts, part: float) -> Size:
    """That many bytes of the present log, and the records in them."""
    if partition.bytes <= 0:
        return Size(0.0, 0.0)
    share = min(1.0, max(0.0, part) / partition.bytes)
    return Size(share * partition.bytes, share * partition.records.value)


def _rate(partition: PartitionFacts) -> Size:
    """Bytes and records per second that the job writes."""
    seen = min(1.0, partition.rate_window_s / _STEADY_S)
    return Size(seen * partition.write_bytes_per_s, seen * partition.write_records_per_s)


def _active(partition: PartitionFacts) -> float:
    """Bytes of the active segment; all of the log where its size is unknown."""
    if not partition.active_bytes.known:
        return partition.bytes
    return min(float(partition.bytes), max(0.0, partition.active_bytes.value))


def _withheld(partition: PartitionFacts, upkeep: Upkeep) -> float:
    """Bytes younger than `min.compaction.lag.ms`."""
    if upkeep.min_lag_ms <= 0:
        return 0.0
    if partition.rate_window_s <= 0:
        return partition.bytes
    return _rate(partition).bytes * upkeep.min_lag_ms / 1000


def _dirt(rate: float, upkeep: Upkeep, kept: float) -> float:
    """Bytes since the last cleaning that trigger the next one."""
    ratio = min(0.999, max(0.0, upkeep.dirty_ratio))
    return min(kept * ratio / (1 - ratio), rate * upkeep.max_lag_ms / 1000)


def _segment(rate: float, upkeep: Upkeep) -> float:
    """The size of a closed segment."""
    return min(float(upkeep.segment_bytes), rate * upkeep.roll_s)
