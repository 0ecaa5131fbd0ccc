"""A micro-batch, before any executor takes part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from holdfast.config.settings import Settings, StateSettings
from holdfast.errors import ExecutorsMissing, KafkaUnavailable
from holdfast.runtime.queries import micro_batch
from holdfast.runtime.queries.micro_batch import rehearse, run_project
from holdfast.sql.plan.topology import compile_text
from holdfast.tasks.plan import Batch, QueryPlan, StreamPlan, TaskReport, Whereabouts
from holdfast.tasks.worker import Answer
from holdfast.types.ids import OffsetRange

SQL = """
CREATE STREAM s (a VARCHAR, b BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT UCASE(a) AS k, SUM(b + 1) AS n FROM s GROUP BY UCASE(a);
"""
SCHEMA = (
    "`A` STRING, `B` BIGINT, `__partition` INT, `__offset` BIGINT, `__timestamp` BIGINT, "
    "`__tombstone` BOOLEAN"
)


def test_a_rehearsal_plans_a_batch_and_runs_nothing(spark: SparkSession) -> None:
    query = compile_text(SQL).queries[0]
    settings = Settings("app", state=StateSettings(partitions=3))
    plan = QueryPlan(settings, query, "changelog", "id", 1, "state")
    tracker = spark.sparkContext.statusTracker()
    before = tracker.getJobIdsForGroup()
    rehearse(spark.createDataFrame([("x", 1, 0, 0, 0, False)], SCHEMA), plan)
    assert tracker.getJobIdsForGroup() == before
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"


STREAM = """
CREATE STREAM s (a VARCHAR) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM t AS SELECT a FROM s WHERE a > 'b';
"""


class _Cluster:
    """Executors that are all away when they are asked for the first time, then others."""

    def __init__(self) -> None:
        self.asked = 0
        self.waited_for: list[str] = []

    def locations(self) -> list[str]:
        self.asked += 1
        if self.asked == 1:
            raise ExecutorsMissing("0 of 1 executors are here.", cause="they died", action="wait")
        return [f"executor_{self.asked}"]

    def waits(self, query_id: str, errors: Sequence[Exception]) -> None:
        self.waited_for += [type(error).__name__ for error in errors]


def test_a_stateless_batch_waits_for_executors_and_goes_on_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, asked = _Cluster(), []
    where = Whereabouts("1", 0, 1, 1)

    def on_owners(_: Any, places: Sequence[str], __: Any, pending: Sequence[int]) -> list[Answer]:
        asked.append((list(places), list(pending)))
        if len(asked) == 1:
            return [TaskReport(0, where), KafkaUnavailable("No broker answers.")]
        return [TaskReport(2, where)]

    for name in ("project_frame", "payload"):
        monkeypatch.setattr(micro_batch, name, lambda *_: None)
    monkeypatch.setattr(micro_batch, "on_owners", on_owners)
    plan = StreamPlan(Settings("app"), compile_text(STREAM).queries[0], 1, "progress", 3)
    source = OffsetRange.of("s", {0: 0, 1: 5, 2: 0}, {0: 4, 1: 5, 2: 4})
    frame: Any = None
    reports = run_project(frame, plan, Batch(0, source), cast("Any", cluster))
    assert [r.partition for r in reports] == [0, 2]
    assert asked == [(["executor_2"] * 2, [0, 1]), (["executor_3"] * 2, [1])]
    assert cluster.waited_for == ["ExecutorsMissing", "KafkaUnavailable"]
