"""A micro-batch, before any executor takes part."""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.config.settings import Settings, StateSettings
from holdfast.runtime.micro_batch import rehearse
from holdfast.sql.plan import compile_text
from holdfast.tasks.plan import QueryPlan

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
