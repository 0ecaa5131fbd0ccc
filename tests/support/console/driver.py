"""A driver's endpoint for the console's tests: Holdfast's own, told what to say."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

from holdfast.runtime.watching.endpoint import serve
from holdfast.runtime.watching.metrics import Metrics
from holdfast.tasks.plan import Batch, TaskReport, Whereabouts
from holdfast.types.ids import OffsetRange, changelog_topic
from holdfast.types.snapshots import SnapshotState
from holdfast.types.status import (
    ExecutorStatus,
    JobState,
    JobStatus,
    PartitionStatus,
    QueryStatus,
    StandbyStatus,
)
from tests.support.console.world import JOB, World

WHERE = (Whereabouts("0", 0, 11, 12), Whereabouts("1", 1, 13, 14))


@dataclass
class DriverOf:
    """The driver of the world's job; `batch` commits one.  `url` is its base address."""

    world: World
    records: dict[str, int] = field(default_factory=dict)
    lag: int = 0
    standby_lag: int = 0
    snapshot: SnapshotState | None = None  # of every state partition
    url: str = ""
    application_id: str = JOB

    def __post_init__(self) -> None:
        self.metrics = Metrics(JOB)
        pages = {
            "/status": lambda: (HTTPStatus.OK, "application/json", orjson.dumps(self.status()))
        }
        self.url = serve(0, "127.0.0.1", self.metrics.application(), pages)

    def batch(self, records: int, seconds: float, commit_seconds: float) -> None:
        """Every query processes so many records."""
        for query in self.world.planned.queries:
            batch_id = self.records.get(query.id, 0)
            self.records[query.id] = batch_id + records
            reports = [
                TaskReport(p, WHERE[p % 2], records=records // 4, commit_seconds=commit_seconds)
                for p in range(4)
            ]
            self.metrics.observe(
                query, Batch(batch_id, OffsetRange.of("shop_orders", {}, {})), reports, seconds
            )

    def status(self) -> dict[str, Any]:
        """The body of /status."""
        queries = {
            q.id: QueryStatus(
                q.sink.name,
                q.sink.topic,
                changelog_topic(self.application_id, q.id) if q.stateful else "",
                batch_id=7,
                records_total=self.records.get(q.id, 0),
                dropped_late=3 if q.sink.window else 0,
                input_records=self.records.get(q.id, 0),
                warnings=("3 of 400 input records (0.8 %) dropped as late",)
                if q.sink.window
                else (),
                state_partitions=tuple(self._partition(q.sink.name, p) for p in range(4))
                if q.stateful
                else (),
            )
            for q in self.world.planned.queries
        }
        status = JobStatus(
            self.application_id,
            state=JobState.RUNNING,
            updated_ms=int(time.time() * 1000),
            executors=tuple(ExecutorStatus(w.executor_id, str(w.volume)) for w in WHERE),
            queries=queries,
        ).as_json()
        for query in status["queries"].values():
            query |= {"lag": self.lag, "caught_up": self.lag == 0}
        more = {"ready": True, "reason": "", "lag": self.lag, "caught_up": self.lag == 0}
        return {**status, **more}

    def _partition(self, table: str, partition: int) -> PartitionStatus:
        state = self.world.state(table, partition)
        where = WHERE[partition % 2]
        return PartitionStatus(
            partition, where.executor_id, str(where.volume), state.rows, state.bytes, state.end,
            state.end, 1_200, 80_000, 0.4, (StandbyStatus(
                WHERE[1 - partition % 2].executor_id, str(1 - partition % 2), state.end,
                self.standby_lag,
            ),), self.snapshot,
        )  # fmt: skip
