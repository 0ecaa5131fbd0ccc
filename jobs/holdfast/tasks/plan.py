"""Messages between driver and executors: plans and batches out, reports back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.config.settings import Settings
from holdfast.state.changelog import CommitMarker
from holdfast.types.ids import OffsetRange, state_name
from holdfast.types.snapshots import SnapshotState
from holdfast.types.statements.topology import Query
from holdfast.types.trace_links import TraceLink

__all__ = [
    "Assigned",
    "Batch",
    "PlacementId",
    "QueryPlan",
    "StandbyDuties",
    "StandbyReport",
    "StandbyState",
    "StoreSurvey",
    "StreamPlan",
    "TaskReport",
    "Whereabouts",
]


@dataclass(frozen=True)
class QueryPlan:
    """The plan of a query for its state tasks; the same for all state partitions.

    Attributes:
        generation: of the changelog, see `state_name`.
    """

    settings: Settings
    query: Query
    changelog: str
    changelog_topic_id: str
    sink_partitions: int
    state_dir: str
    generation: int = 0

    @property
    def state_partitions(self) -> int:
        return self.settings.state.partitions

    @property
    def state_name(self) -> str:
        """The name of the query's state, see `types.ids.state_name`."""
        return state_name(self.query.id, self.generation)


@dataclass(frozen=True)
class StreamPlan:
    """The plan of a stateless query for its tasks; `progress` is its progress topic.

    Attributes:
        source_id: topic id of the source to which the offsets of batches belong; empty: unknown.
        replaced: former topic ids of the source; their offsets are void.
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
        state_partitions: the state partitions that it is for; None: all.
        beginners: state partitions that need not have a commit marker; None: any.
        replaced: former topic ids of the sources; their offsets are void.
        watermark_ms: None: each record advances stream time.  A number: the records are not
            ordered by event time, so none makes another record of the batch late; at its end
            stream time advances to the newest event time, but not beyond the watermark.
    """

    batch_id: int
    source: OffsetRange
    state_partitions: frozenset[int] | None = None
    beginners: frozenset[int] | None = None
    replaced: frozenset[str] = frozenset()
    watermark_ms: int | None = None


@dataclass(frozen=True)
class PlacementId:
    """Which placement of the state partitions it was: the driver's `number`-th."""

    driver: str = ""
    number: int = 0

    def is_after(self, other: PlacementId) -> bool:
        """Whether the same driver made it later; those of two drivers have no order."""
        return self.driver == other.driver and self.number > other.number


@dataclass(frozen=True)
class Assigned:
    """The volume that a state partition is assigned to, and the position of its store there.

    The driver knows it from the last survey or report.  A store that is far behind it is another
    one: the volume was lost, and the driver may have a better place.
    """

    volume: int
    position: int = 0
    placement: PlacementId = PlacementId()


@dataclass(frozen=True)
class Whereabouts:
    """The executor and volume that a task ran on.

    On Kubernetes the executor's name is its pod's name, and `host` is the pod's address: Spark's
    driver assigns the executor id late, and the worker never learns it.  `node` is the machine that
    the pod runs on; empty: unknown.
    """

    executor_id: str
    volume: int
    worker_pid: int
    jvm_pid: int
    host: str = ""
    node: str = ""


@dataclass(frozen=True)
class StoreSurvey:
    """The stores on an executor's volume: (state name, state partition) -> changelog position."""

    where: Whereabouts
    positions: dict[tuple[str, int], int]


@dataclass(frozen=True)
class StandbyDuties:
    """The stores that executors keep; all other stores of these queries are spare.

    Attributes:
        plans: by state name, see `QueryPlan.state_name`.
        wanted: by volume, (state name, state partition) of each standby.
        owned: by volume, likewise, those that state tasks keep.
        placement: from which they follow.  An executor may hear of them after a later placement
            has assigned it a state partition, and that counts.
    """

    plans: Mapping[str, QueryPlan]
    wanted: Mapping[int, frozenset[tuple[str, int]]]
    owned: Mapping[int, frozenset[tuple[str, int]]]
    placement: PlacementId = PlacementId()


@dataclass(frozen=True)
class StandbyState:
    """One standby: its changelog position, and why it cannot follow (empty: it does).

    `lag` is the number of changelog offsets that it lacked after its last round; -1 until it was
    level for the first time.
    """

    state_name: str
    partition: int
    position: int = 0
    lag: int = -1
    error: str = ""


@dataclass(frozen=True)
class StandbyReport:
    """The standbys that an executor keeps."""

    where: Whereabouts
    standbys: tuple[StandbyState, ...]


@dataclass(frozen=True)
class TaskReport:
    """The report of a state task (or a stateless task, `partition` = topic partition).

    Durations in seconds.  `skipped`: the batch was already committed.  `restored_*` are zero
    unless this task opened the store.  `snapshot`: None without `snapshot.uri`.  `began_s`: when
    it began, by its executor's clock, in seconds since 1970.  `links`: to the traces of the
    records that a stateless task has read.
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
    began_s: float = 0.0
    snapshot: SnapshotState | None = None
    links: tuple[TraceLink, ...] = ()
