"""Makes a class archive (JEP 350) of what Spark's JVMs load, so that they start in half the time.

    train.py ARCHIVE        while the image is built

One JVM plays driver and executor of a small job with Python tasks, then asks for a Kubernetes that
is not there.
"""

# ruff: noqa: T201 - what it prints is for the build's log

import contextlib
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession


def _build(master: str) -> SparkSession:
    options = (
        f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={sys.argv[1]} -Dspark.executor.instances=0"
    )
    builder = SparkSession.builder.master(master).config("spark.driver.extraJavaOptions", options)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.deleteOnTermination": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _batch(frame: DataFrame, _batch_id: int) -> None:
    frame.groupBy("value").count().collect()
    frame.rdd.map(lambda row: row).count()


def _train() -> None:
    session = _build("local[2]")
    session.range(1000).selectExpr("id % 7 AS k", "to_json(struct(id)) AS j").groupBy(
        "k"
    ).count().collect()
    stream = session.readStream.format("rate").load().writeStream.foreachBatch(_batch)
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination(20)
    session.stop()
    with contextlib.suppress(Exception):
        _build("k8s://http://127.0.0.1:1").stop()


def _await_archive() -> None:
    """The JVM writes the archive at its end, which is when Python lets go of its input."""
    process = SparkContext._gateway.proc
    process.stdin.close()
    process.wait(300)
    print(f"{sys.argv[1]}: {Path(sys.argv[1]).stat().st_size:,} bytes")


_train()
_await_archive()
