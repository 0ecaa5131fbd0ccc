"""Makes a class archive (JEP 350) of what Spark's JVMs load, so that they start in half the time.

    train.py ARCHIVE        while the image is built

One JVM plays driver and executor of a batch's steps (Python tasks, a shuffle of byte arrays, a
product with the tasks that keep state), then asks for a Kubernetes that is not there.
"""

# ruff: noqa: T201 - what it prints is for the build's log

import contextlib
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext


def _context(master: str) -> SparkContext:
    options = (
        f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={sys.argv[1]} -Dspark.executor.instances=0"
    )
    conf = SparkConf().setMaster(master).setAppName("class-training")
    for name, value in {
        "spark.driver.extraJavaOptions": options,
        "spark.ui.enabled": "false",
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.deleteOnTermination": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    }.items():
        conf.set(name, value)
    return SparkContext(conf=conf)


def _batch(context: SparkContext) -> None:
    tasks = context.parallelize(range(2), 2)
    blobs = tasks.map(lambda task: (task, bytes(1_000))).partitionBy(2).values()
    assert tasks.cartesian(blobs).mapPartitions(lambda pairs: [len(list(pairs))]).sum() == 4


def _train() -> None:
    context = _context("local[2]")
    _batch(context)
    context.stop()
    with contextlib.suppress(Exception):
        _context("k8s://http://127.0.0.1:1").stop()


def _await_archive() -> None:
    """The JVM writes the archive at its end, which is when Python lets go of its input."""
    process = SparkContext._gateway.proc
    process.stdin.close()
    process.wait(300)
    print(f"{sys.argv[1]}: {Path(sys.argv[1]).stat().st_size:,} bytes")


_train()
_await_archive()
