"""Spark for a job, local or under spark-submit: its context."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext

from holdfast.config.settings import Settings
from holdfast.runtime.jvm.class_archive import archive_options
from holdfast.runtime.jvm.class_path import class_path
from holdfast.runtime.jvm.sockets import remove_dead, socket_folder
from holdfast.runtime.jvm.spark_internals import with_secret

__all__ = ["is_local", "prepare_local", "spark_context", "start_java"]

_FIXED = {
    "spark.executor.cores": "1",  # one state task at a time; stores live in its Python worker
    # Executors talk to their Python workers over Unix sockets: over TCP every task waits 40 ms for
    # a delayed acknowledgement.
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
    # How often Spark looks whether `spark.locality.wait` is over.  With the default, once a second,
    # the task of a lost executor waits that long.
    "spark.scheduler.revive.interval": "100ms",
    "spark.shuffle.reduceLocality.enabled": "false",  # only the store's location counts
    "spark.speculation": "false",
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
    # For how long after its registration an executor's pod may lack the label by which the poll
    # finds it.  Spark ends one that it does not find; on a busy node the label took more than 2 s.
    "spark.kubernetes.executor.missingPodDetectDelta": "15s",
    # A deleted pod's address does not refuse connections: they time out, after 2 minutes by default
    # of Spark's.  The entry point of executors' pods says the same for their first connection.
    "spark.rpc.io.connectionCreationTimeout": "5s",
    "spark.shuffle.io.connectionCreationTimeout": "5s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
}
# A dead executor of this machine refuses connections at once.  By default Spark asks it three times
# more, 5 s apart, and only then reads again what was lost with it.
_LOCAL = {"spark.shuffle.io.maxRetries": "1", "spark.shuffle.io.retryWait": "100ms"}
# Not Spark's zip of PySpark either: every Python process would compile it, while the installed
# PySpark is compiled already.
_NOT_LINKED = ("work", "tmp", "bin", "jars", "python", "__pycache__")
_LOADED_FIRST = "load-spark-env.sh"
# A system property, because spark-submit refuses a number below one.
_NO_EXECUTORS = "-Dspark.executor.instances=0"
# By default Java starts with a 64th of the machine's memory and returns none of it.
_SMALL_HEAP = "-XX:+UseSerialGC"
# Otherwise the process keeps the compilers' memory of Spark's start (JDK-8293114; Java 17.0.9).
_GIVES_BACK = "-XX:+IgnoreUnrecognizedVMOptions -XX:TrimNativeHeapInterval=10000"
# The rows are Python's; a JVM is mostly idle threads: each of Spark's pools that clean up after
# batches has a hundred.  Java reserves 80 KB of each stack for native code, and 40 KB are enough;
# netty allocates buffers in chunks of 4 MB, while messages need little; and methods that are called
# 200 to 400 times need not be compiled.
_NO_ROWS = (
    "-Xms28m -XX:MaxNewSize=6m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
    " -XX:StackShadowPages=10 -XX:CompileThresholdScaling=2 -Dio.netty.allocator.maxOrder=5"
)
# Left out is what nobody can act upon, and no option silences: at each start, that Java uses a
# module of Spark's choice; at an end, that a thread pool which is shut down takes no more tasks, as
# when executors end with the driver.  A signal to the process group is not for this reader.
_QUIETER = """\
. '{package}/bin/load-spark-env.sh'
exec 2> >(trap '' INT TERM
  late='java.util.concurrent.RejectedExecutionException: '
  while IFS= read -r line || [[ -n $line ]]; do
    case $line in
      'WARNING: Using incubator modules: '*) ;;
      "$late"*'[Shutting down, '* | "$late"*'[Terminated, '*) trace=late ;;
      $'\\tat '*) [[ $trace == late ]] || printf '%s\\n' "$line" ;;
      *) trace='' && printf '%s\\n' "$line" ;;
    esac
  done >&2)
"""
# A task's outermost method runs once per task; compiling it took 10 MB after 400 tasks.
_NOT_COMPILED = "-XX:CompileCommand=quiet -XX:CompileCommand=exclude,*TaskRunner.run"
# In a JVM that only plans, schedules or moves bytes the second compiler just takes CPU.
_ONE_COMPILER = "-XX:TieredStopAtLevel=1"


def start_java(settings: Settings) -> None:
    """Starts the driver's JVM in a thread, because it takes as long as Python's own start.

    `spark_context` waits for it.  If it does not start, `spark_context` tries again and says why.
    """
    conf = _conf(settings, _same_archive)

    def start() -> None:
        with suppress(Exception):
            SparkContext._ensure_initialized(conf=conf)

    # No daemon: PySpark's temporary folder would stay behind if this process ended meanwhile.
    threading.Thread(target=start, name="java").start()


def spark_context(
    settings: Settings, archive: Callable[[], tuple[str, str]] | None = None
) -> SparkContext:
    """Starts (or joins) Spark; a local one has a JVM for the driver and one per executor.

    Args:
        archive: Java options for the class archive of a local job's driver and executors (an image
            has its own); None: those of this machine's archive.
    """
    conf = _conf(settings, archive or _same_archive)
    if is_local(settings):
        with_secret(conf)
    return SparkContext.getOrCreate(conf)


def _conf(settings: Settings, archive: Callable[[], tuple[str, str]]) -> SparkConf:
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
    drivers, executors = archive() if local else ("", "")
    chosen = {
        "spark.locality.wait": f"{placement.locality_wait_ms}ms",
        "spark.executor.memory": f"{memory}m",
        "spark.driver.memory": f"{placement.driver_memory_mb}m",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.driver.extraJavaOptions": _java_options(requested, drivers),
        "spark.executor.extraJavaOptions": _java_options(_NOT_COMPILED, executors),
    }
    if local:
        chosen |= _LOCAL
        scratch = chosen["spark.local.dir"] = str(Path(settings.home, "spark", "tmp").resolve())
        if (sockets := socket_folder(Path(scratch))) is not None:
            remove_dead(sockets)
            chosen["spark.python.unix.domain.socket.dir"] = str(sockets)
        chosen["spark.driver.extraClassPath"] = class_path()
        chosen["spark.executor.extraClassPath"] = class_path()
    return conf.setAll(list(chosen.items()))


def _same_archive() -> tuple[str, str]:
    return archive_options(), archive_options()


def _java_options(*more: str) -> str:
    log4j = files("holdfast.runtime.jvm") / "log4j2.properties"
    always = f"{_SMALL_HEAP} {_GIVES_BACK} {_NO_ROWS} {_ONE_COMPILER}"
    return " ".join([f"-Dlog4j2.configurationFile=file:{log4j}", always, *filter(None, more)])


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
    for name in ("bin", "jars", "python"):  # links that earlier versions made
        if (root / name).is_symlink():
            (root / name).unlink()
    for name in ("bin", "jars"):
        (root / name).mkdir(exist_ok=True)
    # Our image has one jar in place of all.
    launchers = list((package / "jars").glob("spark-launcher_*.jar"))
    launchers = launchers or list((package / "jars").glob("*.jar"))
    entries = [e for e in package.iterdir() if e.name not in _NOT_LINKED]
    scripts = [e for e in (package / "bin").iterdir() if e.name != _LOADED_FIRST]
    first, text = root / "bin" / _LOADED_FIRST, _QUIETER.format(package=package)
    if not first.is_file() or first.read_text(encoding="utf-8") != text:  # others may read it now
        first.write_text(text, encoding="utf-8")
    for entry in [*entries, *scripts, *launchers]:
        link = root / entry.relative_to(package)
        if not link.is_symlink():
            link.symlink_to(entry)
    os.environ["SPARK_HOME"] = str(root)


def _package() -> Path:
    return Path(pyspark.__file__).resolve().parent
