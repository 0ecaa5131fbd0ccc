"""The calls into Spark's JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.runtime.jvm.spark_internals import (
    located,
    no_installed_sources,
    on_owners,
    payload,
    shuffled,
)

_ROW = pa.schema([("id", pa.int64())])
_MOST_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def test_a_payload_stays_the_bytes_it_is(spark: SparkSession) -> None:
    made = payload(spark.range(10).repartition(3))
    assert "PythonRDD" not in str(made._jrdd.toDebugString())  # nor does Java pickle it
    assert "SerDe" not in str(made._jrdd.toDebugString())
    parts = made.collect()
    rows = [pa.ipc.read_record_batch(pa.py_buffer(p), _ROW).num_rows for p in parts]
    assert (sum(rows), set(map(type, parts))) == (10, {bytes})


def _told(partition: int, parts: list[bytes]) -> Iterator[tuple[int, list[int]]]:
    batches = [pa.ipc.read_record_batch(pa.py_buffer(p), _ROW) for p in parts]
    yield partition, [v for batch in batches for v in batch["id"].to_pylist()]


def test_a_partition_meets_its_owner_however_many_batches_it_has(spark: SparkSession) -> None:
    try:
        spark.conf.set(_MOST_ROWS, 2)
        frame = spark.range(0, 6, 1, 3).where("id < 2 OR id = 5")  # none is in the second
        wide = frame.union(spark.range(10, 15, 1, 1))  # three batches
        places = ["executor_a_0", "executor_a_1", "executor_b_0", "executor_c_0"]
        found = on_owners(payload(wide), places, _told, [3, 1, 2, 0])
    finally:
        spark.conf.unset(_MOST_ROWS)
    assert found == [(3, [10, 11, 12, 13, 14]), (1, []), (2, [5]), (0, [0, 1])]


def _noted(folder: str, partition: int, parts: list[bytes]) -> Iterator[int]:
    Path(folder, str(partition)).touch()
    yield len(parts)


def test_a_payload_that_is_cut_off_is_not_worked_on(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark's own serializers do: the first part would be committed as if it were all."""
    try:
        spark.conf.set(_MOST_ROWS, 2)
        failing = spark.range(0, 8, 1, 2).selectExpr(
            "IF(id = 3, CAST(raise_error('gone') AS BIGINT), id) AS id"
        )
        with pytest.raises(PySparkException, match="gone"):
            on_owners(payload(failing), ["executor_a_0"] * 2, partial(_noted, str(tmp_path)), [0])
        assert not list(tmp_path.iterdir())
        work = partial(_noted, str(tmp_path))
        assert on_owners(payload(failing), ["executor_a_0"] * 2, work, [1]) == [2]
    finally:
        spark.conf.unset(_MOST_ROWS)
    assert [found.name for found in tmp_path.iterdir()] == ["1"]


def _made(index: int, elements: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    assert list(elements) == [index]
    for partition in (0, 3, 0):
        yield partition, b"%d for %d" % (index, partition)


def _sorted_parts(partition: int, parts: list[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    yield partition, sorted(parts)


def test_byte_arrays_are_moved_to_the_partitions_they_name(spark: SparkSession) -> None:
    places = located(spark.sparkContext, ["executor_a_0", "executor_b_1"])
    owners = ["executor_a_0"] * 4
    assert on_owners(shuffled(places, _made, 4), owners, _sorted_parts, [0, 1, 3]) == [
        (0, [b"0 for 0", b"0 for 0", b"1 for 0", b"1 for 0"]),
        (1, []),
        (3, [b"0 for 3", b"1 for 3"]),
    ]


def test_owners_of_a_frame_that_is_known_to_be_empty_are_asked_all_the_same(
    spark: SparkSession,
) -> None:
    empty = payload(spark.range(4).where("FALSE"))
    assert on_owners(empty, ["executor_a_0"] * 2, _told, [0, 1]) == [(0, []), (1, [])]


def test_spark_looks_for_no_installed_data_sources(spark: SparkSession) -> None:
    no_installed_sources(spark)
    jvm: Any = spark.sparkContext._jvm
    package = jvm.org.apache.spark.sql.execution.datasources
    manager = getattr(getattr(package, "DataSourceManager$"), "MODULE$")
    assert manager.dataSourceBuilders().isDefined()
    assert manager.dataSourceBuilders().get().isEmpty()
