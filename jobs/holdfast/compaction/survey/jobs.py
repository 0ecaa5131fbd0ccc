"""The jobs' own reports on their tables: rows, restores, lag, and changelogs still needed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.compaction.survey.facts import Estimate, How
from holdfast.types.ids import is_changelog
from holdfast.types.status import JobState, JobStatus, PartitionStatus, QueryStatus

__all__ = ["JobSeen", "TableSeen", "table_seen"]

_LEVEL = 1  # offsets: a transaction ends behind the commit marker that a position is taken from


@dataclass(frozen=True)
class JobSeen:
    """A driver's status and its queries' progress; None where only the status file was read.

    Attributes:
        levels: by query id, the lag in source offsets and whether the query keeps up.
    """

    status: JobStatus
    levels: Mapping[str, tuple[int | None, bool | None]]

    @staticmethod
    def of(told: Mapping[str, Any]) -> JobSeen | None:
        """Parses a driver's /status or its status file; None when it is neither."""
        status = JobStatus.of(told)
        if status is None:
            return None
        queries = told.get("queries", {})
        levels = {name: (q.get("lag"), q.get("caught_up")) for name, q in queries.items()}
        return JobSeen(status, levels)


@dataclass(frozen=True)
class TableSeen:
    """The job's report on one table; all fields are empty when no job is known.

    Attributes:
        orphaned: why the job no longer needs the changelog.
        absence_ms: how long its stores have been away, if the job has stopped.
    """

    partitions: Mapping[int, PartitionStatus]
    executors: int = 0
    retention_ms: int = 0
    orphaned: str = ""
    absence_ms: int = 0
    lag: int | None = None
    caught_up: bool | None = None

    def live_keys(self, partition: int, end: int, later_end: int) -> Estimate:
        """Rows of a state partition, by the store's own count.

        Records between the store's position and the surveyed end, whichever is lower, may have
        changed the count by as many rows.

        Args:
            end: end of the changelog partition, as surveyed.
            later_end: its end after the store was asked; a running job moves it on.
        """
        found = self.partitions.get(partition)
        if found is None or found.position > later_end:  # of an earlier topic
            return Estimate.unknown()
        apart = abs(end - found.position)
        if apart <= _LEVEL:
            return Estimate(float(found.rows))
        return Estimate(float(found.rows), float(apart), How.DERIVED)


def table_seen(
    jobs: Sequence[JobSeen], application_id: str, query_id: str, changelog: str
) -> TableSeen:
    """The newest status of that application on that query."""
    ours = [job for job in jobs if job.status.application_id == application_id]
    if not ours:
        return TableSeen({})
    job = max(ours, key=lambda j: j.status.updated_ms)
    query = job.status.queries.get(query_id)
    if (
        query is not None
        and query.changelog != changelog
        and is_changelog(changelog, application_id, query_id)
    ):
        return TableSeen(
            {},
            orphaned=f"it is of a former generation of {query_id}, whose changelog is "
            f"{query.changelog} now: `holdfast rescale {query_id} --confirm` deletes it",
        )
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
    """Milliseconds since a job stopped: its stores are away until it is started again."""
    if status.state is not JobState.STOPPED or not status.updated_ms:
        return 0
    return max(0, int(time.time() * 1000) - status.updated_ms)
