"""What a survey found out about changelog topics.  Facts only; nothing here was decided.

Everything a survey says is one of these values, with the way it was found out beside each number
that is not exact, so that a plan can be judged by what it stands on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter

from holdfast.compaction.runs import read_file
from holdfast.errors import Refused

__all__ = [
    "BrokerFacts",
    "CleanerState",
    "Estimate",
    "How",
    "PartitionFacts",
    "RestoreFacts",
    "Setting",
    "Survey",
    "TopicFacts",
]

SURVEY_VERSION = 1


class How(StrEnum):
    """Where a number comes from, the best first."""

    COUNTED = "counted"  # every record was read, or the owner of the fact said it
    SAMPLED = "sampled"  # some records were read; `error` says how far off it may be
    DERIVED = "derived"  # follows from settings and sizes; no record was read
    UNKNOWN = "unknown"  # nobody here can tell


@dataclass(frozen=True)
class Estimate:
    """A number and how well it is known.

    Attributes:
        value: the number; 0 when unknown.
        error: half of the 95 % interval, in the same unit; 0 when counted.
        how: where it comes from.
    """

    value: float
    error: float = 0.0
    how: How = How.COUNTED

    @staticmethod
    def unknown() -> Estimate:
        return Estimate(0.0, how=How.UNKNOWN)

    @property
    def known(self) -> bool:
        return self.how is not How.UNKNOWN


@dataclass(frozen=True)
class Setting:
    """A setting in force, and whose it is.

    Attributes:
        source: `topic`, `broker` (dynamic), `cluster` (dynamic default), `file` (server.properties)
            or `default`.
    """

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class PartitionFacts:
    """One partition of a changelog topic.  Offsets count transaction markers, records do not.

    Attributes:
        leader: broker id, -1 without one.
        replicas, in_sync: broker ids.
        bytes: of the leader's log on disk, all segments.
        start, end: log start offset, and the end that read_committed readers see.
        records: data records in the log (commit markers, tombstones and superseded ones included).
        live_keys: rows of the table, from the store's own count, else sampled.
        tombstones: records without a value.
        expired: records with a value, of windows whose retention is over.
        record_bytes: bytes on disk of one record.
        dirty_ratio: share of bytes that the cleaner has not been over, 0 to 1, as Kafka defines
            it: bytes since the cleaner's checkpoint / all bytes, the active segment left out.
        segments: how many.
        active_bytes: of the active segment, which no cleaner touches.
        write_records_per_s, write_bytes_per_s: over the time of `rate_window_s`.
        rate_window_s: the time over which the write rate was found, 0 when unknown.
        stream_time_ms: of the last commit marker, -1 without one.
        last_write_ms: wall time of the last record, -1 without one.
        markers: commit markers among the records, superseded ones included: one per transaction.
        marker_bytes: bytes on disk of one commit marker, which is larger than a row.
        unstable: offsets beyond `end` that open transactions hold back; 0 when unknown.
    """

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    bytes: int
    start: int
    end: int
    records: Estimate
    live_keys: Estimate
    tombstones: Estimate
    expired: Estimate
    record_bytes: Estimate
    dirty_ratio: Estimate
    segments: Estimate
    active_bytes: Estimate
    write_records_per_s: float = 0.0
    write_bytes_per_s: float = 0.0
    rate_window_s: float = 0.0
    stream_time_ms: int = -1
    last_write_ms: int = -1
    markers: Estimate = field(default_factory=Estimate.unknown)
    marker_bytes: Estimate = field(default_factory=Estimate.unknown)
    unstable: int = 0

    @property
    def live_share(self) -> float:
        """Live keys per record, 0 to 1; 1 for an empty log."""
        if self.records.value <= 0:
            return 1.0
        return min(1.0, self.live_keys.value / self.records.value)


@dataclass(frozen=True)
class RestoreFacts:
    """How long a full restore of the whole topic takes now.

    Attributes:
        records_per_s: of one executor process.
        processes: that restore side by side.
        seconds: for all partitions.
        how: COUNTED when the rate was measured on this table, DERIVED when it is the default one.
    """

    records_per_s: float
    processes: int
    seconds: float
    how: How = How.DERIVED


@dataclass(frozen=True)
class TopicFacts:
    """One changelog topic.

    Attributes:
        topic_id: changes when the topic is deleted and remade.
        windowed: whether its keys end in a window start.
        retention_ms: of its windows; 0 when not windowed or unknown.
        orphaned: why nobody seems to need it any more; empty when somebody does.
        settings: those that matter to the cleaner, by name.
        readers: consumer groups with offsets on it.
        longest_absence_ms: the longest time a store of it was seen away, 0 when unknown.
        owner: the resource that keeps its settings (`kafkatopic/<namespace>/<name>`), or empty.
        caught_up: whether the job keeps up with its input; None when no job answers.
        lag: source offsets the job is behind; None when unknown.
    """

    topic: str
    topic_id: str
    application_id: str
    query_id: str
    windowed: bool
    retention_ms: int
    settings: tuple[Setting, ...]
    partitions: tuple[PartitionFacts, ...]
    restore: RestoreFacts
    orphaned: str = ""
    readers: tuple[str, ...] = ()
    longest_absence_ms: int = 0
    owner: str = ""
    caught_up: bool | None = None
    lag: int | None = None

    def setting(self, name: str) -> Setting | None:
        """The setting in force, None when the survey does not hold it."""
        return next((s for s in self.settings if s.name == name), None)

    @property
    def bytes(self) -> int:
        """Of one replica, all partitions."""
        return sum(p.bytes for p in self.partitions)

    @property
    def records(self) -> float:
        return sum(p.records.value for p in self.partitions)

    @property
    def live_keys(self) -> float:
        return sum(p.live_keys.value for p in self.partitions)

    @property
    def healthy(self) -> bool:
        """Every partition has a leader and all its replicas are in sync."""
        return all(p.leader >= 0 and set(p.in_sync) >= set(p.replicas) for p in self.partitions)


class CleanerState(StrEnum):
    """What is known of a broker's log cleaner."""

    RUNNING = "running"  # it has cleaned something since the broker started, or has nothing to do
    DEAD = "dead"  # its thread ended, or it gave a changelog's partition up: see the evidence
    OFF = "off"  # switched off, or without threads
    UNKNOWN = "unknown"  # neither its log nor its checkpoints can be read from here


@dataclass(frozen=True)
class BrokerFacts:
    """One broker, as far as its log cleaner goes.

    Attributes:
        settings: `log.cleaner.*`.
        evidence: what `cleaner` stands on, in words.
        free_bytes: of the volume of its log folder; -1 when unknown.
        given_up: topics with a partition that a cleaner which else works gave up; then only they
            are not cleaned, although it is called dead.
    """

    broker: int
    settings: tuple[Setting, ...]
    cleaner: CleanerState = CleanerState.UNKNOWN
    evidence: str = ""
    free_bytes: int = -1
    given_up: tuple[str, ...] = ()

    def cleans(self, topic: str) -> bool:
        """False when it is known that the cleaner does not go there."""
        if self.cleaner is CleanerState.DEAD and self.given_up:
            return topic not in self.given_up
        return self.cleaner not in (CleanerState.DEAD, CleanerState.OFF)

    def setting(self, name: str) -> Setting | None:
        return next((s for s in self.settings if s.name == name), None)


@dataclass(frozen=True)
class Survey:
    """All that was found, at one moment.

    Attributes:
        run: the name of the run it belongs to.
        taken_ms: wall time.
        seconds: how long it took.
        records_read: for samples, all together.
        notes: what could not be found out, and why; for people.
    """

    run: str
    cluster_id: str
    taken_ms: int
    seconds: float
    brokers: tuple[BrokerFacts, ...]
    topics: tuple[TopicFacts, ...]
    records_read: int = 0
    notes: tuple[str, ...] = ()
    version: int = field(default=SURVEY_VERSION)

    def topic(self, name: str) -> TopicFacts | None:
        return next((t for t in self.topics if t.topic == name), None)

    def to_json(self) -> bytes:
        """Indented JSON."""
        return _ADAPTER.dump_json(self, indent=1)

    @staticmethod
    def read(path: Path) -> Survey:
        """The inverse of `to_json`, from a file.

        Raises:
            Refused: there is none, or it cannot be read.
        """
        try:
            return read_file(path, _ADAPTER, "survey", "run `holdfast compaction survey` again")
        except FileNotFoundError as error:
            raise Refused(
                f"There is no survey {path}.", action="run `holdfast compaction survey` first"
            ) from error


_ADAPTER = TypeAdapter(Survey)
