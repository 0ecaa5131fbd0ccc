"""The Spark SQL session of the benchmark's Spark, on as many executors as Holdfast has."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from holdfast.config.settings import Settings
from holdfast.runtime.jvm.session import prepare_local
from holdfast.runtime.jvm.spark_internals import with_secret

__all__ = ["sql_session"]

_JARS = Path(pyspark.__file__).resolve().parent / "jars"
_LOG4J = files("holdfast.runtime.jvm") / "log4j2.properties"
_JAVA = (
    f"-Dlog4j2.configurationFile=file:{_LOG4J} -XX:+UseSerialGC -Xms48m -XX:MaxNewSize=64m"
    " -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
)
_FIXED = {
    "spark.executor.cores": "1",
    "spark.executorEnv.PYSPARK_UDS_MODE": "true",
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.MALLOC_ARENA_MAX": "2",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "8388608",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "8388608",
    "spark.authenticate": "true",
    "spark.python.daemon.module": "holdfast.runtime.jvm.python_daemon",
    "spark.python.worker.reuse": "true",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.locality.wait": "2000ms",
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.speculation": "false",
    "spark.task.maxFailures": "8",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.session.timeZone": "UTC",
    # By default each file of the checkpoint has two checksum files, and each write starts half a
    # dozen processes (readlink, chmod).
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.shuffle.partitions": "8",
    # Spark's RocksDB keeps the state.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.ui.showConsoleProgress": "false",
}


def sql_session(settings: Settings) -> SparkSession:
    """Starts Spark on this machine: a driver, and a JVM for each executor."""
    home, placement = Path(settings.home), settings.placement
    prepare_local(home)
    memory = placement.executor_memory_mb
    conf = SparkConf().setMaster(f"local-cluster[{placement.executors},1,{memory}]")
    conf.setAppName(settings.application_id).setAll(list(_FIXED.items()))
    for name, value in {
        "spark.executor.memory": f"{memory}m",
        "spark.driver.memory": f"{placement.driver_memory_mb}m",
        "spark.driver.extraJavaOptions": f"{_JAVA} -XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": _JAVA,
        "spark.driver.extraClassPath": f"{_JARS}/*",
        "spark.executor.extraClassPath": f"{_JARS}/*",
        "spark.local.dir": str((home / "spark" / "tmp").resolve()),
        "spark.pyspark.python": sys.executable,
    }.items():
        conf.set(name, value)
    with_secret(conf)
    return SparkSession(SparkContext.getOrCreate(conf))
