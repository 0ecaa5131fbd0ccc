"""What the jobs themselves say of their tables: rows, restores, lag, and what they still need."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.compaction.survey.facts import Estimate, How
from holdfast.types.status import JobState, JobStatus, PartitionStatus, QueryStatus

__all__ = ["JobSeen", "TableSeen", "table_seen"]

_LEVEL = 1  # offsets: the end of a transaction lies behind the marker that a position is taken from


@dataclass(frozen=True)
class JobSeen:
    """A driver's status, and how far its queries are; None where only its file was read.

    Attributes:
        levels: by query id, source offsets behind and whether it keeps up.
    """

    status: JobStatus
    levels: Mapping[str, tuple[int | None, bool | None]]

    @staticmethod
    def of(told: Mapping[str, Any]) -> JobSeen | None:
        """From the JSON of a driver's /status, or of its status file; None when it is neither."""
        status = JobStatus.of(told)
        if status is None:
            return None
        queries = told.get("queries", {})
        levels = {name: (q.get("lag"), q.get("caught_up")) for name, q in queries.items()}
        return JobSeen(status, levels)


@dataclass(frozen=True)
class TableSeen:
    """What is known of one table from its job; everything is empty when no job is known.

    Attributes:
        orphaned: why the job does not need the changelog any more.
        absence_ms: for how long its stores have been away, if the job has stopped.
    """

    partitions: Mapping[int, PartitionStatus]
    executors: int = 0
    retention_ms: int = 0
    orphaned: str = ""
    absence_ms: int = 0
    lag: int | None = None
    caught_up: bool | None = None

    def live_keys(self, partition: int, end: int, later_end: int) -> Estimate:
        """Rows of a state partition by its store's own count.

        What was written between the store's position and the surveyed end, whichever is first,
        may have changed the count by as much.

        Args:
            end: of the changelog partition, as surveyed.
            later_end: the same after the store was asked, which a job that runs moves on.
        """
        found = self.partitions.get(partition)
        if found is None or found.position > later_end:  # that was another topic of this name
            return Estimate.unknown()
        apart = abs(end - found.position)
        if apart <= _LEVEL:
            return Estimate(float(found.rows))
        return Estimate(float(found.rows), float(apart), How.DERIVED)


def table_seen(
    jobs: Sequence[JobSeen], application_id: str, query_id: str, changelog: str
) -> TableSeen:
    """What the newest status of that application says of that query."""
    ours = [job for job in jobs if job.status.application_id == application_id]
    if not ours:
        return TableSeen({})
    job = max(ours, key=lambda j: j.status.updated_ms)
    query = job.status.queries.get(query_id)
    if query is None or query.changelog != changelog:
        known = ", ".join(sorted(job.status.queries)) or "none"
        return TableSeen(
            {}, orphaned=f"job {application_id} has no query {query_id} (it has: {known})"
        )
    lag, caught_up = job.levels.get(query_id, (None, None))
    return TableSeen(
        _by_partition(query),
        len(job.status.executors),
        query.window_retention_ms,
        absence_ms=_away_ms(job.status),
        lag=lag,
        caught_up=caught_up,
    )


def _by_partition(query: QueryStatus) -> dict[int, PartitionStatus]:
    return {p.partition: p for p in query.state_partitions}


def _away_ms(status: JobStatus) -> int:
    """A stopped job's stores follow nothing; they come back when it is started again."""
    if status.state is not JobState.STOPPED or not status.updated_ms:
        return 0
    return max(0, int(time.time() * 1000) - status.updated_ms)
