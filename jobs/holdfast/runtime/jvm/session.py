"""Spark as a job has it, local or given by spark-submit: its tasks, and its SQL where wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from holdfast.config.settings import Settings
from holdfast.runtime.jvm.class_archive import Role, archive_options
from holdfast.runtime.jvm.class_path import class_path, launchers_path
from holdfast.runtime.jvm.sockets import remove_dead, socket_folder
from holdfast.runtime.jvm.spark_internals import no_installed_sources, with_secret

__all__ = ["is_local", "prepare_local", "spark_context", "sql_session"]

_FIXED = {
    "spark.executor.cores": "1",  # one state task at a time; stores live in its Python worker
    # Executors talk to their Python workers over Unix sockets: on TCP every task waits 40 ms for an
    # acknowledgement that is held back.  Not the driver: what plans a read closes too early for it.
    "spark.executorEnv.PYSPARK_UDS_MODE": "true",
    # What a batch took goes back to the system after it, but for as much as the next columns take:
    # fresh pages for each of them were a tenth of the workers' time.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.MALLOC_ARENA_MAX": "2",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "8388608",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "8388608",
    # Whoever could speak to a driver or an executor unasked could run anything in it.
    "spark.authenticate": "true",
    "spark.python.daemon.module": "holdfast.runtime.jvm.python_daemon",
    "spark.python.worker.reuse": "true",
    "spark.shuffle.reduceLocality.enabled": "false",  # only the store's place counts
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",  # the number of state partitions is fixed
    "spark.sql.ansi.enabled": "false",  # an expression that fails is NULL, as in ksqlDB
    "spark.sql.caseSensitive": "true",  # names are resolved by the planner
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # a doubled key must not fail the job
    "spark.sql.session.timeZone": "UTC",
    # Spark's checkpoint is scratch (ADR 2).  By default each of its files has two checksum files,
    # and each write starts half a dozen processes (readlink, chmod).
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.shuffle.partitions": "8",
    "spark.task.maxFailures": "8",
    "spark.ui.enabled": "false",
    # Kept for the page that is off all the same: by default of 1,000 jobs and 100,000 tasks.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.ui.showConsoleProgress": "false",
}

# Executors are pods of a StatefulSet of the chart's (ADR 7): Spark asks for none, makes none and
# deletes none.  It only has to see quickly which are gone: a container that was killed is known
# by its pod's new executor id at the next poll.
_KUBERNETES = {
    # Between pods also encrypted; holdfast-executor says the same to an executor's first question.
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.decommission.enabled": "false",  # state stays with its volume
    "spark.driver.port": "7078",
    "spark.driver.blockManager.port": "7079",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.kubernetes.executor.apiPollingInterval": "2s",
    "spark.kubernetes.executor.deleteOnTermination": "false",
    "spark.kubernetes.executor.disableConfigMap": "true",
    "spark.kubernetes.executor.enablePollingWithResourceVersion": "true",
    "spark.kubernetes.executor.missingPodDetectDelta": "2s",
    # The address of a pod that is gone refuses nothing, it is silent: for two minutes by default.
    "spark.shuffle.io.connectionCreationTimeout": "5s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
}
# Not Spark's zip of PySpark either: Python would compile all of it in each of its processes, where
# the installed one is compiled already.
_NOT_LINKED = ("work", "tmp", "jars", "python", "__pycache__")
# Given as a system property: spark-submit would refuse a number below one.
_NO_EXECUTORS = "-Dspark.executor.instances=0"
# Java would begin with a 64th of the machine's memory and give none of it back.
_SMALL_HEAP = "-XX:+UseSerialGC"
# What compilers took while Spark started would stay with the process (JDK-8293114; Java 17.0.9).
_GIVES_BACK = "-XX:+IgnoreUnrecognizedVMOptions -XX:TrimNativeHeapInterval=10000"
_ROOM_FOR_ROWS = "-Xms48m -XX:MaxNewSize=64m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
# Without rows a JVM is mostly threads that wait: Spark has a hundred in each of its pools for
# cleaning up after batches.  Java keeps 80 KB of each one's stack ready for native code, 40 of
# which it can do without; netty takes buffers 4 MB at a time, of which messages need little; and
# what is called 200 to 400 times need not be compiled.
_NO_ROWS = (
    "-Xms28m -XX:MaxNewSize=6m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
    " -XX:StackShadowPages=10 -XX:CompileThresholdScaling=2 -Dio.netty.allocator.maxOrder=5"
)
# Spark pools idle Python workers by their environment, and this is the only variable by which
# Spark SQL's differ from those of RDDs, which keep state.  Where a task may need both, two workers
# of an executor would else compete for its volume and its stores.  Where nothing goes through
# Spark SQL, one worker reads and keeps state in turns: a process less, 150 MB.
_SPARK_SQL_ITS_OWN_WORKERS = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
# Packed batches have one state task for each executor, and all executors are free when it starts:
# only for one that has gone would Spark wait, and for one that reads more slowly than others.
_PACKED_WAIT_MS = 300
# A task's outermost method runs once a task; compiling it took 10 MB when a job was 400 tasks old.
_NOT_COMPILED = "-XX:CompileCommand=quiet -XX:CompileCommand=exclude,*TaskRunner.run"
# Where a JVM plans, schedules or moves bytes the second compiler only takes cores.
_ONE_COMPILER = "-XX:TieredStopAtLevel=1"


def spark_context(
    settings: Settings,
    archive: Callable[[Role], str] = archive_options,
    *,
    packed: bool = False,
    sql: bool = True,
) -> SparkContext:
    """Starts (or joins) Spark; locally one JVM for the driver and one for each executor.

    Args:
        archive: Java options for the class archive of a role, locally (an image has its own).
        packed: no query has rows go through Spark SQL (`tasks.packing`).
        sql: something else may, in the driver or in executors: there will be an `sql_session`.
    """
    local = is_local(settings)
    if local:
        prepare_local(Path(settings.home))
    placement = settings.placement
    memory = placement.executor_memory_mb
    master = settings.master or f"local-cluster[{placement.executors},1,{memory}]"
    on_kubernetes = master.startswith("k8s://")
    fixed = _FIXED | (_KUBERNETES if on_kubernetes else {})
    if settings.spark_secret_file and not local:
        fixed = fixed | {"spark.authenticate.secret.file": settings.spark_secret_file}
    conf = SparkConf().setMaster(master).setAppName(settings.application_id)
    conf.setAll(list(fixed.items()))
    requested = _NO_EXECUTORS if on_kubernetes else ""
    wait_ms = placement.locality_wait_ms
    if packed:
        wait_ms = min(wait_ms, _PACKED_WAIT_MS)
    drivers = archive(Role.PACKED_DRIVER if packed else Role.DRIVER) if local else ""
    executors = archive(Role.PACKED_EXECUTOR if packed else Role.EXECUTOR) if local else ""
    chosen = {
        "spark.locality.wait": f"{wait_ms}ms",
        "spark.executor.memory": f"{memory}m",
        "spark.driver.memory": f"{placement.driver_memory_mb}m",
        "spark.deploy.maxExecutorRetries": "-1",
        _SPARK_SQL_ITS_OWN_WORKERS: str(not packed).lower(),
        "spark.driver.extraJavaOptions": _java_options(packed, _ONE_COMPILER, requested, drivers),
        "spark.executor.extraJavaOptions": _java_options(
            packed, _NOT_COMPILED, _ONE_COMPILER if packed else "", executors
        ),
    }
    if local:
        scratch = chosen["spark.local.dir"] = str(Path(settings.home, "spark", "tmp").resolve())
        if (sockets := socket_folder(Path(scratch))) is not None:
            remove_dead(sockets)
            chosen["spark.python.unix.domain.socket.dir"] = str(sockets)
        jars = class_path(sql=sql or not packed)
        chosen["spark.driver.extraClassPath"] = jars if packed else launchers_path()
        chosen["spark.executor.extraClassPath"] = jars
    conf.setAll(list(chosen.items()))
    if local:
        with_secret(conf)
    return SparkContext.getOrCreate(conf)


def sql_session(context: SparkContext) -> SparkSession:
    """Spark SQL, which loads four thousand classes more: for who has rows go through it."""
    session = SparkSession.builder.config(conf=context.getConf()).getOrCreate()
    no_installed_sources(session)
    return session


def _java_options(packed: bool, *more: str) -> str:
    log4j = files("holdfast.runtime") / "log4j2.properties"
    heap = f"{_SMALL_HEAP} {_GIVES_BACK} {_NO_ROWS if packed else _ROOM_FOR_ROWS}"
    return " ".join([f"-Dlog4j2.configurationFile=file:{log4j}", heap, *filter(None, more)])


def is_local(settings: Settings) -> bool:
    """Does the job run on this machine alone (and so on the loopback interface only)?"""
    return not settings.master or settings.master.startswith("local")


def prepare_local(home: Path) -> None:
    """Keeps Spark on the loopback interface and its files inside `home`.

    Standalone workers write below SPARK_HOME, which for pip's PySpark is the installed package;
    a folder of links to it takes the files instead.  Of its jars it has the launcher's alone: the
    others are named by the package's own path.
    """
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    package = _package()
    root = (home / "spark").resolve()
    (root / "tmp").mkdir(parents=True, exist_ok=True)
    for name in ("jars", "python"):  # as it was before
        if (root / name).is_symlink():
            (root / name).unlink()
    (root / "jars").mkdir(exist_ok=True)
    # In our image one jar stands for all.
    launchers = list((package / "jars").glob("spark-launcher_*.jar"))
    launchers = launchers or list((package / "jars").glob("*.jar"))
    entries = [e for e in package.iterdir() if e.name not in _NOT_LINKED]
    for entry in [*entries, *launchers]:
        link = root / entry.relative_to(package)
        if not link.is_symlink():
            link.symlink_to(entry)
    os.environ["SPARK_HOME"] = str(root)


def _package() -> Path:
    return Path(pyspark.__file__).resolve().parent
