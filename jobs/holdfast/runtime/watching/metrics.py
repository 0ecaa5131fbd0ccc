"""Metrics of a job on a Prometheus endpoint of the driver, under Kafka Streams' names.

Kafka Streams' `process-rate` is Prometheus' rate() over `holdfast_process_total`, like every
`-rate`; an `-avg` is the ratio of the `_sum` and `_count` of a summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, make_wsgi_app

from holdfast.runtime.cluster import StandbysByKey
from holdfast.tasks.plan import Batch, TaskReport
from holdfast.types.left_out import LeftOut
from holdfast.types.snapshots import SnapshotState
from holdfast.types.statements.topology import Query

__all__ = ["Metrics"]

_QUERY = ("query",)
_PARTITION = ("query", "state_partition")
_STANDBY = (*_PARTITION, "volume")
# Seconds; a commit takes a broker some milliseconds, and seconds under load.
_COMMIT_BUCKETS = (
    0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2, 5, 10, 30,
)  # fmt: skip


class Metrics:
    """Owns the counters; one instance per job."""

    def __init__(self, application_id: str) -> None:
        self._registry = CollectorRegistry()
        self._application_id = application_id
        self._process = self._counter("process", "Records processed (process-rate)")
        self._emitted = self._counter("emitted_records", "Records written to the sink")
        self._expired = self._counter("expired_windows", "Windows removed past their retention")
        self._dropped = Counter(
            "holdfast_dropped_records",
            "Records dropped (dropped-records-total)",
            (*_QUERY, "reason"),
            registry=self._registry,
        )
        self._dead_letters = Gauge(
            "holdfast_dead_letter_records",
            "Records of the job that could not be decoded, kept in its dead-letter topic",
            registry=self._registry,
        )
        self._left_out = {
            name: Gauge(f"holdfast_{name}", text, (*_QUERY, "reason"), registry=self._registry)
            for name, text in (
                ("left_out_records", "Input records in no result, since the first batch"),
                ("left_out_share", "Their share of the input, 0 to 1"),
            )
        }
        self._restored = self._counter("restore_records", "Changelog records replayed into stores")
        self._restore_seconds = self._counter("restore_seconds", "Seconds spent in restores")
        self._latency: dict[str, Summary | Histogram] = {
            name: self._summary(name) for name in ("batch", "get", "merge", "produce", "put")
        }
        self._latency["commit"] = Histogram(
            *_named("commit"), _QUERY, registry=self._registry, buckets=_COMMIT_BUCKETS
        )
        self._gauges = {
            "store_rows": self._gauge("store_rows", "Live rows of a store", _PARTITION),
            "store_bytes": self._gauge("store_bytes", "Bytes of a store on its volume", _PARTITION),
            "position": self._gauge("store_position", "Changelog position of a store", _PARTITION),
        }
        self._snapshots = {
            name: self._gauge(f"snapshot_{name}", text, _PARTITION)
            for name, text in (
                ("offset", "Changelog offset the newest snapshot goes up to; -1: none yet"),
                ("timestamp_seconds", "When it was taken, in seconds since 1970; 0: none yet"),
                ("bytes", "The size of its files"),
                ("failing", "1 if the last attempt to take one failed, else 0"),
            )
        }
        self._standby_lag = self._gauge(
            "standby_lag", "Changelog offsets a standby lacks; -1: not level yet", _STANDBY
        )
        self._lag = self._gauge("records_lag", "Source offsets not yet committed", _QUERY)
        self._partitions: dict[str, set[str]] = {}  # with gauges, by query
        self._batch_id = self._gauge("batch_id", "The last committed batch", _QUERY)
        self._ready = Gauge(
            "holdfast_ready", "1 while /ready answers 200, else 0", registry=self._registry
        )

    def readiness(self, why_not: Callable[[], str]) -> None:
        """Asks `why_not` at each look whether the job is ready: it is if there is no reason."""
        self._ready.set_function(lambda: float(not why_not()))

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"holdfast_{name}", text, _QUERY, registry=self._registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(f"holdfast_{name}", text, labels, registry=self._registry)

    def _summary(self, name: str) -> Summary:
        return Summary(*_named(name), _QUERY, registry=self._registry)

    def application(self) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
        """The WSGI application that serves the metrics."""
        return make_wsgi_app(self._registry)

    def observe(
        self, query: Query, batch: Batch, reports: list[TaskReport], seconds: float
    ) -> None:
        """Takes over the state tasks' reports of one batch."""
        name = query.id
        self._batch_id.labels(name).set(batch.batch_id)
        if seconds:
            self._latency["batch"].labels(name).observe(seconds)
        for report in reports:
            self._process.labels(name).inc(report.records)
            self._emitted.labels(name).inc(report.emitted)
            self._expired.labels(name).inc(report.expired)
            self._dropped.labels(name, "null-key").inc(report.dropped_null_key)
            self._dropped.labels(name, "late").inc(report.dropped_late)
            self._restored.labels(name).inc(report.restored_records)
            self._restore_seconds.labels(name).inc(report.restore_seconds)
            self._observe_latency(name, report)
            labels = (name, str(report.partition))
            self._gauges["store_rows"].labels(*labels).set(report.rows)
            self._gauges["store_bytes"].labels(*labels).set(report.bytes)
            self._gauges["position"].labels(*labels).set(report.position)
            if report.snapshot is not None:
                self._observe_snapshot(labels, report.snapshot)
        if query.stateful:  # every batch reports all of its state partitions
            self._forget_others(name, {str(report.partition) for report in reports})

    def _forget_others(self, name: str, partitions: set[str]) -> None:
        """Ends the series of state partitions that a rescale has left behind."""
        gone = self._partitions.get(name, set()) - partitions
        self._partitions[name] = partitions
        for gauge in (*self._gauges.values(), *self._snapshots.values()):
            for partition in gone:
                with suppress(KeyError):  # no snapshots are taken
                    gauge.remove(name, partition)

    def _observe_snapshot(self, labels: tuple[str, str], state: SnapshotState) -> None:
        values = {
            "offset": state.offset,
            "timestamp_seconds": state.taken_ms / 1000,
            "bytes": state.bytes,
            "failing": int(bool(state.error)),
        }
        for name, value in values.items():
            self._snapshots[name].labels(*labels).set(value)

    def _observe_latency(self, name: str, report: TaskReport) -> None:
        if not report.records:
            return
        for phase in ("get", "merge", "produce", "commit", "put"):
            seconds: float = getattr(report, f"{phase}_seconds")
            self._latency[phase].labels(name).observe(seconds)

    def dead_letters(self, count: int) -> None:
        """Sets the number of records in the job's dead-letter topic."""
        self._dead_letters.set(count)

    def left_out(self, query_id: str, found: LeftOut) -> None:
        """Sets the counts of a query's input records that are in no result."""
        counts = {"late": found.late, "null-key": found.null_key, "dead-letter": found.dead_letters}
        shares = found.shares()
        for reason, count in counts.items():
            self._left_out["left_out_records"].labels(query_id, reason).set(count)
            share = shares[reason.replace("-", "_")]
            self._left_out["left_out_share"].labels(query_id, reason).set(share)

    def standbys(self, found: StandbysByKey) -> None:
        """Sets the lag of every standby; those of before are no longer told."""
        self._standby_lag.clear()
        for (query_id, partition), standbys in found.items():
            for where, state in standbys:
                labels = query_id, str(partition), str(where.volume)
                self._standby_lag.labels(*labels).set(state.lag)

    def lag(self, query: Query, records: int) -> None:
        """Sets the number of source offsets between the group's position and the topic's end."""
        self._lag.labels(query.id).set(records)

    def no_lag(self, query: Query) -> None:
        """Ends the series of a query that is paused or terminated: it is behind on purpose."""
        with suppress(KeyError):
            self._lag.remove(query.id)


def _named(phase: str) -> tuple[str, str]:
    """The name and help text of a phase's summary."""
    text = f"Seconds per batch and state partition ({phase}-latency-avg)"
    return f"holdfast_{phase}_latency_seconds", text
