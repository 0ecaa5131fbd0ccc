"""The status file of a job, written by its driver for `inspect`, `verify` and the demo.

The driver owns the facts in it and replaces the file after every batch; any process may read it at
any time, because the replacement is atomic.  The engine itself never decides anything by it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.fields import Field

from holdfast.types.left_out import LeftOut
from holdfast.types.snapshots import SnapshotState

__all__ = [
    "ExecutorStatus",
    "JobState",
    "JobStatus",
    "PartitionStatus",
    "QueryState",
    "QueryStatus",
    "StandbyStatus",
    "status_path",
]

# A reader may be older or newer than the driver: it skips unknown keys, and missing keys have a
# default.
_TOLERANT = ConfigDict(extra="ignore", coerce_numbers_to_str=True)


class JobState(StrEnum):
    """restoring -> running -> stopped; a killed driver leaves its last state behind."""

    RESTORING = "restoring"
    RUNNING = "running"
    STOPPED = "stopped"


class QueryState(StrEnum):
    """running <-> paused -> terminated; a terminated query runs again when it is restored."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"


@dataclass(frozen=True, config=_TOLERANT)
class ExecutorStatus:
    """One executor process; pids are 0 if unknown (another machine)."""

    id: str
    volume: str = ""
    worker_pid: int = 0
    jvm_pid: int = 0


@dataclass(frozen=True, config=_TOLERANT)
class StandbyStatus:
    """A copy of a state partition on another executor's volume, ready to take over.

    Attributes:
        lag: changelog offsets that it lacked after its last round; -1: it has not been level yet.
        error: why it does not follow its changelog; empty: it does.
    """

    executor: str
    volume: str = ""
    position: int = 0
    lag: int = -1
    error: str = ""


@dataclass(frozen=True, config=_TOLERANT)
class PartitionStatus:
    """One state partition of a query; offsets are of its changelog partition.

    Attributes:
        snapshot: None without `snapshot.uri`.
    """

    partition: int
    owner: str = ""
    volume: str = ""
    rows: int = 0
    bytes: int = 0
    position: int = 0
    changelog_end: int = 0
    restore_records: int = 0
    restore_bytes: int = 0
    restore_seconds: float = 0.0
    standbys: tuple[StandbyStatus, ...] = ()
    snapshot: SnapshotState | None = None

    @property
    def lag(self) -> int:
        """The number of changelog offsets by which the local store is behind (markers count)."""
        return max(0, self.changelog_end - self.position)


@dataclass(frozen=True, config=_TOLERANT)
class QueryStatus:
    """One query of the job.

    Attributes:
        batch_id: the last committed batch; -1 before the first one.
        state: the query's state; only a running query takes batches.
        records_total: records that reached the state; without state, records since its start.
        input_records: all input records, including dead letters; see `LeftOut`.
        warnings: a sentence for each kind of which too many records are left out.
        window_retention_ms: how long it keeps a window; 0 without windows.
    """

    sink: str
    sink_topic: str
    changelog: str = ""
    batch_id: int = -1
    records_total: int = 0
    dropped_late: int = 0
    dropped_null_key: int = 0
    state_partitions: tuple[PartitionStatus, ...] = ()
    window_retention_ms: int = 0
    state: QueryState = QueryState.RUNNING
    dead_letters: int = 0
    input_records: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def left_out(self) -> LeftOut:
        """The counts of the query's input and of records in no result."""
        return LeftOut(
            self.input_records, self.dropped_late, self.dropped_null_key, self.dead_letters
        )


@dataclass(frozen=True, config=_TOLERANT)
class JobStatus:
    """The last state of one job by its driver; `updated_ms` is wall time since the epoch.

    Attributes:
        born: the driver's birth; empty if its version had none.
    """

    application_id: str
    pid: int = 0
    jvm_pid: int = 0
    state: JobState = JobState.STOPPED
    updated_ms: int = 0
    metrics_url: str = ""
    executors: tuple[ExecutorStatus, ...] = ()
    queries: dict[str, QueryStatus] = Field(default_factory=dict)
    born: str = ""

    def write(self, path: Path) -> None:
        """Replaces the file at `path` atomically; creates its folder if it is missing.

        Not synced to disk: after a power loss the next batch writes it again.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=path.name, suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_ADAPTER.dump_json(self, indent=1))
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def warnings(self) -> tuple[str, ...]:
        """The warnings of all queries, each with the name of the query's sink."""
        return tuple(f"{q.sink}: {text}" for q in self.queries.values() for text in q.warnings)

    @staticmethod
    def read(path: Path) -> JobStatus | None:
        """The status at `path`; None if there is no file or it is not a status file."""
        try:
            return _ADAPTER.validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    @staticmethod
    def of(values: Mapping[str, Any]) -> JobStatus | None:
        """The inverse of `as_json`; skips unknown keys.  None if `values` are not a status."""
        try:
            return _ADAPTER.validate_python(dict(values))
        except ValidationError:
            return None

    def as_json(self) -> dict[str, Any]:
        """The status as JSON values."""
        values: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return values

    def age_seconds(self) -> float:
        """Seconds since the driver wrote this."""
        return max(0.0, time.time() - self.updated_ms / 1000)


_ADAPTER = TypeAdapter(JobStatus)


def status_path(home: str | Path, application_id: str) -> Path:
    """The path of the status file of `application_id`'s driver."""
    return Path(home) / "run" / application_id / "status.json"
