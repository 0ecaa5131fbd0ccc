"""Turns the reports of state tasks into the status file, the metrics and the log."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from holdfast.runtime.cluster import Cluster, StandbysByKey
from holdfast.runtime.watching.metrics import Metrics
from holdfast.state.topics.progress_counts import Counted
from holdfast.tasks.plan import Batch, StandbyState, TaskReport, Whereabouts
from holdfast.tasks.processors.layout import layout_of
from holdfast.types.births import born
from holdfast.types.ids import changelog_topic
from holdfast.types.left_out import LeftOut, WarnShares
from holdfast.types.statements.topology import Query
from holdfast.types.status import (
    ExecutorStatus,
    JobState,
    JobStatus,
    PartitionStatus,
    QueryState,
    QueryStatus,
    StandbyStatus,
    status_path,
)

__all__ = ["Scoreboard"]

_LOG = logging.getLogger(__name__)


class Scoreboard:
    """Owns the job's status.  Called from several queries' threads.

    Args:
        shares: the shares of input that may be left out without a warning; None: the defaults.
    """

    def __init__(
        self,
        home: str,
        application_id: str,
        queries: Sequence[Query],
        metrics: Metrics,
        shares: WarnShares | None = None,
    ) -> None:
        self._shares = shares or WarnShares()
        self._counted: dict[str, Counted] = {}
        self._warned: set[tuple[str, str]] = set()
        self._path: Path = status_path(home, application_id)
        self._metrics = metrics
        self._cluster: Cluster | None = None
        self._lock = threading.Lock()
        self._status = JobStatus(
            application_id=application_id,
            pid=os.getpid(),
            born=born(),
            state=JobState.RESTORING,
            queries={q.id: _before_its_first_batch(application_id, q) for q in queries},
        )

    def listens(self, metrics_url: str) -> None:
        """Writes the status for the first time, once the endpoint answers."""
        with self._lock:
            self._status = replace(self._status, metrics_url=metrics_url)
            self._write()

    def attach(self, cluster: Cluster) -> None:
        """Attaches the cluster once Spark runs."""
        with self._lock:
            self._cluster = cluster
            self._status = replace(self._status, jvm_pid=_jvm_pid())
            self._write()

    def as_json(self) -> dict[str, Any]:
        """The status as JSON values."""
        with self._lock:
            return self._status.as_json()

    def state(self, state: JobState) -> None:
        """Moves the job to another state."""
        with self._lock:
            self._status = replace(self._status, state=state)
            self._write()

    def steered(self, query_id: str, state: QueryState) -> bool:
        """Moves a query to another state; False if it was in that state."""
        with self._lock:
            known = self._status.queries[query_id]
            if known.state is state:
                return False
            self._put(query_id, replace(known, state=state))
            self._write()
            return True

    def state_of(self, query_id: str) -> QueryState:
        """The state of a query."""
        with self._lock:
            return self._status.queries[query_id].state

    def observe(
        self, query: Query, batch: Batch, reports: list[TaskReport], seconds: float
    ) -> None:
        """Takes over the reports of one batch (or of opening the stores, if `seconds` is 0)."""
        self._metrics.observe(query, batch, reports, seconds)
        self._log(query, batch, reports, seconds)
        with self._lock:
            known = self._status.queries[query.id]
            self._put(query.id, _updated(known, batch, reports, self._changelog(query, reports)))
            self._write()

    def counted(self, query_id: str, counted: Counted) -> None:
        """Takes over the counts in a query's progress topic."""
        with self._lock:
            if self._counted.get(query_id) == counted:
                return
            self._counted[query_id] = counted
            self._put(query_id, self._status.queries[query_id])
            self._write()

    def standbys_told(self) -> None:
        """Takes over the standbys that the executors have reported."""
        with self._lock:
            if self._cluster is None:
                return
            standbys = self._cluster.standbys()
            self._metrics.standbys(standbys)
            for query_id, known in self._status.queries.items():
                self._put(query_id, _with_standbys(query_id, known, standbys))
            self._write()

    def _changelog(self, query: Query, reports: list[TaskReport]) -> str:
        """The changelog of a query with state, by its commit markers; empty without state."""
        known = self._status.queries[query.id].changelog
        markers = [r.marker for r in reports if r.marker is not None]
        if not known or not markers:
            return known
        return changelog_topic(
            self._status.application_id, query.id, max(m.generation for m in markers)
        )

    def _put(self, query_id: str, status: QueryStatus) -> None:
        status = _with_left_out(status, self._counted.get(query_id, Counted()), self._shares)
        self._metrics.left_out(query_id, status.left_out)
        self._warn(query_id, status.left_out)
        queries = {**self._status.queries, query_id: status}
        self._status = replace(self._status, queries=queries)

    def _write(self) -> None:
        executors = tuple(
            ExecutorStatus(w.executor_id, str(w.volume), w.worker_pid, w.jvm_pid)
            for w in (self._cluster.whereabouts() if self._cluster is not None else ())
        )
        self._status = replace(
            self._status, executors=executors, updated_ms=int(time.time() * 1000)
        )
        self._status.write(self._path)

    def _warn(self, query_id: str, left_out: LeftOut) -> None:
        """Warns once per kind of left-out records, because every batch has new numbers."""
        for kind, text in left_out.too_much(self._shares).items():
            if (query_id, kind) not in self._warned:
                self._warned.add((query_id, kind))
                _LOG.warning("%s: %s", query_id, text)

    def _log(self, query: Query, batch: Batch, reports: list[TaskReport], seconds: float) -> None:
        for report in reports:
            if report.restored_records:
                _LOG.info(
                    "%s state partition %d: restored %d records, %d bytes, %.2f s, volume %d: %s",
                    query.id, report.partition, report.restored_records, report.restored_bytes,
                    report.restore_seconds, report.where.volume, report.restore_reason,
                )  # fmt: skip
        for reason, partitions in _without_records(reports).items():
            told = ", ".join(map(str, sorted(partitions)))
            _LOG.info("%s state partitions %s: restored no record: %s", query.id, told, reason)
        if seconds:
            records = sum(r.records for r in reports)
            skipped = sum(r.skipped for r in reports)
            note = f", {skipped} state partitions had committed it already" if skipped else ""
            _LOG.info(
                "%s batch %d: %d records in %.2f s%s",
                query.id, batch.batch_id, records, seconds, note,
            )  # fmt: skip


def _without_records(reports: list[TaskReport]) -> dict[str, list[int]]:
    """State partitions that restored no record, by the reason of their restore."""
    by_reason: dict[str, list[int]] = {}
    for report in reports:
        if report.restore_reason and not report.restored_records:
            by_reason.setdefault(report.restore_reason, []).append(report.partition)
    return by_reason


def _before_its_first_batch(application_id: str, query: Query) -> QueryStatus:
    kept_ms = layout_of(query).retention_ms if query.stateful else None
    return QueryStatus(
        sink=query.sink.name,
        sink_topic=query.sink.topic,
        changelog=changelog_topic(application_id, query.id) if query.stateful else "",
        window_retention_ms=kept_ms or 0,
    )


def _with_left_out(status: QueryStatus, counted: Counted, shares: WarnShares) -> QueryStatus:
    """Adds left-out counts; a query without state has its input counted in its progress topic."""
    came = status.records_total + counted.dead_letters if status.changelog else counted.offsets
    status = replace(status, input_records=came, dead_letters=counted.dead_letters)
    return replace(status, warnings=status.left_out.warnings(shares))


def _updated(
    known: QueryStatus, batch: Batch, reports: list[TaskReport], changelog: str
) -> QueryStatus:
    if not changelog:
        records = known.records_total + sum(r.records for r in reports)
        return replace(known, batch_id=batch.batch_id, records_total=records)
    before = {p.partition: p for p in known.state_partitions}
    partitions = {r.partition: _partition(before.get(r.partition), r) for r in reports}
    # The markers carry the counts across restarts; every batch reports all state partitions.
    markers = [r.marker for r in reports if r.marker is not None]
    return replace(
        known,
        batch_id=batch.batch_id,
        changelog=changelog,
        records_total=sum(m.records for m in markers),
        dropped_late=sum(m.dropped_late for m in markers),
        dropped_null_key=sum(m.dropped_null_key for m in markers),
        state_partitions=tuple(partitions[p] for p in sorted(partitions)),
    )


def _with_standbys(query_id: str, known: QueryStatus, standbys: StandbysByKey) -> QueryStatus:
    partitions = tuple(
        replace(p, standbys=tuple(map(_standby, standbys.get((query_id, p.partition), ()))))
        for p in known.state_partitions
    )
    return replace(known, state_partitions=partitions)


def _standby(told: tuple[Whereabouts, StandbyState]) -> StandbyStatus:
    where, state = told
    return StandbyStatus(
        where.executor_id, str(where.volume), state.position, state.lag, state.error
    )


def _partition(known: PartitionStatus | None, report: TaskReport) -> PartitionStatus:
    base = known or PartitionStatus(report.partition)
    if report.restore_seconds:
        base = replace(
            base,
            restore_records=report.restored_records,
            restore_bytes=report.restored_bytes,
            restore_seconds=report.restore_seconds,
        )
    return replace(
        base,
        owner=report.where.executor_id,
        volume=str(report.where.volume),
        rows=report.rows,
        bytes=report.bytes,
        position=report.position,
        changelog_end=max(report.position, base.changelog_end),
        snapshot=report.snapshot,
    )


def _jvm_pid() -> int:
    """The driver's own JVM: the child process that PySpark started."""
    children = psutil.Process().children()
    return next((c.pid for c in children if "java" in c.name()), 0)
