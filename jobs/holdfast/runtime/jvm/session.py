"""Spark for a job, local or under spark-submit: its context, and Spark SQL if needed."""

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
    # Executors talk to their Python workers over Unix sockets: over TCP every task waits 40 ms for
    # a delayed acknowledgement.  Not the driver: its read planner closes such a socket too early.
    "spark.executorEnv.PYSPARK_UDS_MODE": "true",
    # The memory of a batch returns to the system, except what the next columns need: fresh pages
    # for each column took a tenth of the workers' time.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.MALLOC_ARENA_MAX": "2",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "8388608",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "8388608",
    # An unauthenticated client could run any code in a driver or executor.
    "spark.authenticate": "true",
    "spark.python.daemon.module": "holdfast.runtime.jvm.python_daemon",
    "spark.python.worker.reuse": "true",
    "spark.shuffle.reduceLocality.enabled": "false",  # only the store's location counts
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",  # the number of state partitions is fixed
    "spark.sql.ansi.enabled": "false",  # an expression that fails is NULL, as in ksqlDB
    "spark.sql.caseSensitive": "true",  # names are resolved by the planner
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # a duplicate key must not fail the job
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
    # Spark keeps these for its UI even if it is off; the default is 1,000 jobs and 100,000 tasks.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.ui.showConsoleProgress": "false",
}

# Executors are pods of the chart's StatefulSet (ADR 7): Spark requests, creates and deletes none.
# It only has to notice lost ones quickly: after a killed container the pod has a new executor id,
# which the next poll sees.
_KUBERNETES = {
    # Traffic between pods is encrypted, too; holdfast-executor sets the same for its first request.
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
    # A deleted pod's address does not refuse connections: they time out, after 2 minutes by default
    # of Spark's.
    "spark.shuffle.io.connectionCreationTimeout": "5s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
}
# Not Spark's zip of PySpark either: every Python process would compile it, while the installed
# PySpark is compiled already.
_NOT_LINKED = ("work", "tmp", "jars", "python", "__pycache__")
# A system property, because spark-submit refuses a number below one.
_NO_EXECUTORS = "-Dspark.executor.instances=0"
# By default Java starts with a 64th of the machine's memory and returns none of it.
_SMALL_HEAP = "-XX:+UseSerialGC"
# Otherwise the process keeps the compilers' memory of Spark's start (JDK-8293114; Java 17.0.9).
_GIVES_BACK = "-XX:+IgnoreUnrecognizedVMOptions -XX:TrimNativeHeapInterval=10000"
_ROOM_FOR_ROWS = "-Xms48m -XX:MaxNewSize=64m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
# Without rows a JVM is mostly idle threads: each of Spark's pools that clean up after batches has
# a hundred.  Java reserves 80 KB of each stack for native code, and 40 KB are enough; netty
# allocates buffers in chunks of 4 MB, while messages need little; and methods that are called 200
# to 400 times need not be compiled.
_NO_ROWS = (
    "-Xms28m -XX:MaxNewSize=6m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
    " -XX:StackShadowPages=10 -XX:CompileThresholdScaling=2 -Dio.netty.allocator.maxOrder=5"
)
# Spark pools idle Python workers by environment, and only this variable differs between Spark SQL's
# workers and the RDD workers, which keep state.  Where a task may need both, two workers of an
# executor would otherwise compete for its volume and stores.  Without Spark SQL one worker both
# reads and keeps state: one process and 150 MB less.
_SPARK_SQL_ITS_OWN_WORKERS = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
# Packed batches have one state task per executor, and all executors are free when it starts: Spark
# would only wait for a lost executor, or for one that reads more slowly than others.
_PACKED_WAIT_MS = 300
# A task's outermost method runs once per task; compiling it took 10 MB after 400 tasks.
_NOT_COMPILED = "-XX:CompileCommand=quiet -XX:CompileCommand=exclude,*TaskRunner.run"
# In a JVM that only plans, schedules or moves bytes the second compiler just takes CPU.
_ONE_COMPILER = "-XX:TieredStopAtLevel=1"


def spark_context(
    settings: Settings,
    archive: Callable[[Role], str] = archive_options,
    *,
    packed: bool = False,
    sql: bool = True,
) -> SparkContext:
    """Starts (or joins) Spark; a local one has a JVM for the driver and one per executor.

    Args:
        archive: Java options for a role's class archive of a local job (an image has its own).
        packed: all batches are packed, none goes through Spark SQL (`tasks.pack.packing`).
        sql: an `sql_session` will be opened for something else, in the driver or in executors.
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
    """A Spark SQL session, for queries whose rows pass through it; loads 4,000 more classes."""
    session = SparkSession.builder.config(conf=context.getConf()).getOrCreate()
    no_installed_sources(session)
    return session


def _java_options(packed: bool, *more: str) -> str:
    log4j = files("holdfast.runtime.jvm") / "log4j2.properties"
    heap = f"{_SMALL_HEAP} {_GIVES_BACK} {_NO_ROWS if packed else _ROOM_FOR_ROWS}"
    return " ".join([f"-Dlog4j2.configurationFile=file:{log4j}", heap, *filter(None, more)])


def is_local(settings: Settings) -> bool:
    """Whether the job runs on this machine alone (and so only on the loopback interface)."""
    return not settings.master or settings.master.startswith("local")


def prepare_local(home: Path) -> None:
    """Keeps Spark on the loopback interface and its files inside `home`.

    Standalone workers write below SPARK_HOME, which for pip's PySpark is the installed package; a
    folder with links to the package takes the files instead.  It only has the launcher's jar: the
    class path names the other jars in the package.
    """
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    package = _package()
    root = (home / "spark").resolve()
    (root / "tmp").mkdir(parents=True, exist_ok=True)
    for name in ("jars", "python"):  # links that earlier versions made
        if (root / name).is_symlink():
            (root / name).unlink()
    (root / "jars").mkdir(exist_ok=True)
    # Our image has one jar in place of all.
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
