"""Predicted against real, per topic and partition, after a plan was carried out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from holdfast.compaction.apply.scratch import RestoreSample
from holdfast.errors import Refused

__all__ = ["OFF_SHARE", "PACE_S", "PartitionResult", "TopicResult", "Verified"]

VERIFIED_VERSION = 1
# A prediction that is off by more than this gets a warning.
OFF_SHARE = 0.30
# Restores of fewer seconds tell no pace: opening a store takes about as long.
PACE_S = 5.0


@dataclass(frozen=True)
class PartitionResult:
    """One partition: bytes and records before, as predicted, and as found.

    Attributes:
        grown_records: records that the job has written since the apply began; an upper bound, since
            offsets are counted and transaction markers take some.
        grown_bytes: the same in bytes, by the survey's size of a record.
    """

    partition: int
    bytes_before: int
    bytes_predicted: int
    bytes_real: int
    records_before: int
    records_predicted: int
    records_real: int
    grown_records: int = 0
    grown_bytes: int = 0


@dataclass(frozen=True)
class TopicResult:
    """One topic.

    Attributes:
        outcome: outcome of the apply (`applied.Outcome`).
        partitions: only for topics that were cleaned.
        restore_before_s, restore_real_s: for the whole topic, at the rate of the measured restore.
        restore_predicted_s: the plan's prediction.
        sample_before, sample_after: measured restores of the same partition.
        settings: (name, own value before, own value now) of the settings that the plan names.
        warnings: one sentence each.
    """

    topic: str
    outcome: str
    partitions: tuple[PartitionResult, ...] = ()
    restore_before_s: float = 0.0
    restore_predicted_s: float = 0.0
    restore_real_s: float = 0.0
    sample_before: RestoreSample | None = None
    sample_after: RestoreSample | None = None
    settings: tuple[tuple[str, str | None, str | None], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def bytes_before(self) -> int:
        return sum(p.bytes_before for p in self.partitions)

    @property
    def bytes_predicted(self) -> int:
        """The prediction, plus what was written since."""
        return sum(p.bytes_predicted + p.grown_bytes for p in self.partitions)

    @property
    def bytes_real(self) -> int:
        return sum(p.bytes_real for p in self.partitions)

    @property
    def records_before(self) -> int:
        return sum(p.records_before for p in self.partitions)

    @property
    def records_predicted(self) -> int:
        """The prediction, plus what was written since."""
        return sum(p.records_predicted + p.grown_records for p in self.partitions)

    @property
    def records_real(self) -> int:
        return sum(p.records_real for p in self.partitions)

    @property
    def removed_share(self) -> float:
        """The removed share of the removable bytes, 0 to 1 and a little above."""
        removable = sum(p.bytes_before - p.bytes_predicted for p in self.partitions)
        grown = sum(p.grown_bytes for p in self.partitions)
        return (self.bytes_before + grown - self.bytes_real) / removable if removable > 0 else 1.0

    @property
    def restore_share(self) -> float | None:
        """Records that a measured restore replays now, per record before; None if not measured."""
        before, after = self.sample_before, self.sample_after
        if before is None or after is None or before.records == 0:
            return None
        return after.records / before.records


@dataclass(frozen=True)
class Verified:
    """One run.

    Attributes:
        taken_ms: wall time of the second survey.
        cluster_id: of the cluster.
        warnings: the ones that belong to no topic.
    """

    run: str
    plan_hash: str
    cluster_id: str
    taken_ms: int
    topics: tuple[TopicResult, ...]
    warnings: tuple[str, ...] = ()
    version: int = VERIFIED_VERSION

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings of the run and of every topic, with the topic's name."""
        named = [f"{t.topic}: {warning}" for t in self.topics for warning in t.warnings]
        return (*self.warnings, *named)

    @property
    def verdict(self) -> str:
        """`as predicted`, or `off` when there is any warning."""
        return "off" if self.all_warnings else "as predicted"

    def to_json(self) -> bytes:
        """Indented JSON."""
        return _ADAPTER.dump_json(self, indent=1)

    @staticmethod
    def read(path: Path) -> Verified:
        """The inverse of `to_json`, from a file.

        Raises:
            Refused: there is none, or it cannot be read.
        """
        try:
            return _ADAPTER.validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError) as error:
            raise Refused(
                f"{path} is not there, or this Holdfast cannot read it.",
                action="run `holdfast compaction verify` first",
            ) from error


_ADAPTER = TypeAdapter(Verified)
