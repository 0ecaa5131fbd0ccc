"""The calls into Spark's JVM."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from holdfast.runtime.spark_internals import located, no_installed_sources, payload


def test_a_payload_meets_its_place_without_a_worker_in_between(spark: SparkSession) -> None:
    frame = spark.range(10).repartition(3)
    pairs = located(spark.sparkContext, ["executor_a_0"] * 3).zip(payload(frame))
    lineage = str(pairs._jrdd.toDebugString())
    assert "PythonRDD" not in lineage, lineage
    found = pairs.collect()
    assert [place for place, _ in found] == [0, 1, 2]
    assert all(isinstance(part, bytes | bytearray) for _, parts in found for part in parts)
    assert any(parts for _, parts in found)


def test_spark_looks_for_no_installed_data_sources(spark: SparkSession) -> None:
    no_installed_sources(spark)
    jvm: Any = spark.sparkContext._jvm
    package = jvm.org.apache.spark.sql.execution.datasources
    manager = getattr(getattr(package, "DataSourceManager$"), "MODULE$")
    assert manager.dataSourceBuilders().isDefined()
    assert manager.dataSourceBuilders().get().isEmpty()
