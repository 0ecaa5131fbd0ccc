"""What travels between driver and executors: plans and batches out, reports back."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.config.settings import Settings
from holdfast.state.changelog import CommitMarker
from holdfast.types.ids import OffsetRange
from holdfast.types.topology import Query

__all__ = ["Batch", "QueryPlan", "StoreSurvey", "StreamPlan", "TaskReport", "Whereabouts"]


@dataclass(frozen=True)
class QueryPlan:
    """Everything a state task must know of its query; the same for all state partitions."""

    settings: Settings
    query: Query
    changelog: str
    changelog_topic_id: str
    sink_partitions: int
    state_dir: str

    @property
    def state_partitions(self) -> int:
        return self.settings.state.partitions


@dataclass(frozen=True)
class StreamPlan:
    """Everything a stateless query's task must know; `progress` is its progress topic.

    Attributes:
        source_id: topic id of the source, which the offsets of batches are of; empty: unknown.
        replaced: topic ids that the source had before; their offsets mean nothing any more.
    """

    settings: Settings
    query: Query
    sink_partitions: int
    progress: str
    progress_partitions: int
    source_id: str = ""
    replaced: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Batch:
    """One micro-batch: its id and the source offsets it covers.

    Attributes:
        state_partitions: those that it is for; None: all.
        beginners: state partitions that need not have a commit marker; None: any.
        replaced: topic ids that sources had before; their offsets mean nothing any more.
        watermark_ms: None: stream time goes on with each record.  A number: the records come in
            no order of event time, so none of them is late by another one of the batch; at its
            end stream time goes on to the newest event time, and no further than the watermark.
    """

    batch_id: int
    source: OffsetRange
    state_partitions: frozenset[int] | None = None
    beginners: frozenset[int] | None = None
    replaced: frozenset[str] = frozenset()
    watermark_ms: int | None = None


@dataclass(frozen=True)
class Whereabouts:
    """Which executor and volume a task ran on.

    On Kubernetes the executor is called by its pod, and `host` is the pod's address: Spark's
    driver gives such an executor its id late, and its worker is never told.
    """

    executor_id: str
    volume: int
    worker_pid: int
    jvm_pid: int
    host: str = ""


@dataclass(frozen=True)
class StoreSurvey:
    """What an executor found on its volume: (query id, state partition) -> changelog position."""

    where: Whereabouts
    positions: dict[tuple[str, int], int]


@dataclass(frozen=True)
class TaskReport:
    """What a state task (or a stateless task, `partition` = topic partition) did.

    Durations in seconds.  `skipped`: the batch was already committed.  `restored_*` are zero
    unless this task opened the store.
    """

    partition: int
    where: Whereabouts
    marker: CommitMarker | None = None
    skipped: bool = False
    opened: bool = False
    rows: int = 0
    bytes: int = 0
    position: int = 0
    records: int = 0
    emitted: int = 0
    dropped_null_key: int = 0
    dropped_late: int = 0
    expired: int = 0
    restored_records: int = 0
    restored_bytes: int = 0
    restore_seconds: float = 0.0
    restore_reason: str = ""
    get_seconds: float = 0.0
    merge_seconds: float = 0.0
    produce_seconds: float = 0.0
    commit_seconds: float = 0.0
    put_seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())
