"""The calls into Spark's JVM that have no Python API, pinned to the Spark version by tests.

Everything here was tried on Spark 4.3 with classic (not Connect) sessions.  `SparkEnv` must not
be touched through py4j: reflecting on it loads a class that pip's PySpark does not carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext
from pyspark.rdd import RDD
from pyspark.sql import DataFrame

__all__ = ["Executor", "executors", "located", "payload"]


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
    return RDD(_to_python(jvm, java_rdd), context)


def payload(frame: DataFrame) -> RDD[list[bytes]]:
    """The frame's partitions, each one element: its Arrow IPC record batches without schema."""
    context: SparkContext = frame.sparkSession.sparkContext
    java_rdd = frame._jdf.toArrowBatchRdd().toJavaRDD().glom()
    return RDD(_to_python(context._jvm, java_rdd), context)


def _scala_context(context: SparkContext) -> Any:
    java_context: Any = context._jsc
    return java_context.sc()


def _seq(jvm: Any, values: Any) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq()


def _to_python(jvm: Any, java_rdd: Any) -> Any:
    return jvm.org.apache.spark.api.python.SerDeUtil.javaToPython(java_rdd)
