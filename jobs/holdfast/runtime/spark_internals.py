"""The calls into Spark's JVM that have no Python API, pinned to the Spark version by tests.

Everything here was tried on Spark 4.3 with classic (not Connect) sessions.  `SparkEnv` must not
be touched through py4j: reflecting on it loads a class that pip's PySpark does not carry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext
from pyspark.core.rdd import RDD
from pyspark.serializers import BatchedSerializer, CPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.util import _load_from_socket

__all__ = [
    "Executor",
    "executors",
    "located",
    "no_installed_sources",
    "on_state_workers",
    "payload",
]

_STATE_WORKER = "HOLDFAST_STATE_WORKER"
_environment = threading.Lock()
# What the JVM makes of one element per partition.  Said so because `zip` would otherwise send both
# its sides through Python workers of their own, only to cut them into batches of one size.
_ONE_BY_ONE = BatchedSerializer(CPickleSerializer(), 1)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, order=True)
class Executor:
    """A live executor as the scheduler knows it."""

    id: str
    host: str

    @property
    def location(self) -> str:
        """Spark's name of "this executor" among preferred locations."""
        return f"executor_{self.host}_{self.id}"


def executors(context: SparkContext) -> list[Executor]:
    """Live executors without the driver, ordered by id."""
    summaries = _scala_context(context).statusStore().executorList(True)
    found = []
    for i in range(summaries.size()):
        summary = summaries.apply(i)
        if summary.id() != "driver":
            host = str(summary.hostPort()).rsplit(":", 1)[0]
            found.append(Executor(str(summary.id()), host))
    return sorted(found)


def located(context: SparkContext, locations: Sequence[str]) -> RDD[int]:
    """An RDD of one element per partition, its index, preferring the given locations."""
    jvm: Any = context._jvm
    pairs = jvm.java.util.ArrayList()
    for index, location in enumerate(locations):
        preferred = jvm.java.util.ArrayList()
        preferred.add(location)
        pairs.add(jvm.scala.Tuple2(index, _seq(jvm, preferred)))
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))
    scala_rdd = _scala_context(context).makeRDD(_seq(jvm, pairs), tag)
    java_rdd = jvm.org.apache.spark.api.java.JavaRDD(scala_rdd, tag)
    return RDD(_to_python(jvm, java_rdd), context, _ONE_BY_ONE)


def payload(frame: DataFrame) -> RDD[list[bytes]]:
    """The frame's partitions, each one element: its Arrow IPC record batches without schema."""
    context: SparkContext = frame.sparkSession.sparkContext
    java_rdd = frame._jdf.toArrowBatchRdd().toJavaRDD().glom()
    return RDD(_to_python(context._jvm, java_rdd), context, _ONE_BY_ONE)


def on_state_workers(
    rdd: RDD[Any], work: Callable[[int, Iterable[Any]], Iterable[Any]], partitions: Sequence[int]
) -> list[Any]:
    """Runs `work` over some partitions in Python workers that do nothing else.

    Spark pools idle workers by their environment.  Were the pool shared with the workers that
    read Kafka, two processes of one executor would compete for its volume and its stores.
    """
    context = rdd.context
    mapped = rdd.mapPartitionsWithIndex(work, preservesPartitioning=True)
    with _environment:
        context.environment[_STATE_WORKER] = "1"
        try:
            java_rdd: Any = mapped._jrdd  # wraps the function, and the environment with it
        finally:
            del context.environment[_STATE_WORKER]
    # SparkContext.runJob would wrap the function once more, without the environment.
    jvm: Any = context._jvm
    socket = jvm.PythonRDD.runJob(_scala_context(context), java_rdd, list(partitions))
    with _load_from_socket(socket, mapped._jrdd_deserializer) as answers:
        return list(answers)


def no_installed_sources(session: SparkSession) -> None:
    """Spark need not look for data sources among the installed packages: ours is registered.

    It would ask a Python process of its own, before the first one is registered.
    """
    jvm: Any = session.sparkContext._jvm
    package = jvm.org.apache.spark.sql.execution.datasources
    manager = getattr(getattr(package, "DataSourceManager$"), "MODULE$")
    none = jvm.scala.collection.immutable.HashMap()
    getattr(manager, "dataSourceBuilders_$eq")(jvm.scala.Option.apply(none))


def _scala_context(context: SparkContext) -> Any:
    java_context: Any = context._jsc
    return java_context.sc()


def _seq(jvm: Any, values: Any) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq()


def _to_python(jvm: Any, java_rdd: Any) -> Any:
    return jvm.org.apache.spark.api.python.SerDeUtil.javaToPython(java_rdd)
