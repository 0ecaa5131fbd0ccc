"""Calls into Spark's JVM without a Python API; the package's docstring lists them with their tests.

`SparkEnv` must not be accessed through py4j: reflection on it loads a class that pip's PySpark does
not include.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import py4j.protocol
from pyspark import SparkConf, SparkContext
from pyspark.core.rdd import RDD
from pyspark.serializers import (
    BatchedSerializer,
    CPickleSerializer,
    FramedSerializer,
    NoOpSerializer,
    SpecialLengths,
)
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter
from pyspark.storagelevel import StorageLevel
from pyspark.util import _load_from_socket

__all__ = [
    "Executor",
    "ended_executors",
    "executors",
    "leave_sigterm_to_python",
    "located",
    "no_numpy_to_java",
    "on_owners",
    "on_state_workers",
    "shuffled",
    "with_secret",
]

_Work = Callable[[int, list[bytes]], Iterable[Any]]  # takes a partition and its parts
# Turns elements into byte arrays, each with the number of its target partition.
_Making = Callable[[int, Iterable[Any]], Iterable[tuple[int, bytes]]]
_PICKLED = BatchedSerializer(CPickleSerializer(), 1)  # type: ignore[no-untyped-call]
_RAW = NoOpSerializer()


def with_secret(conf: SparkConf) -> None:
    """Gives the settings a fresh secret by which this Spark's processes authenticate each other.

    PySpark starts its JVM with all settings on the command line, which every user of the machine
    can read; settings made after the JVM has started go over a socket.  Spark passes the secret to
    local executors in their environment.
    """
    if SparkContext._active_spark_context is not None:
        return  # a joined Spark has a secret already
    SparkContext._ensure_initialized(conf=conf)
    conf.set("spark.authenticate.secret", secrets.token_urlsafe(32))


def leave_sigterm_to_python(context: SparkContext) -> None:
    """Has the JVM that this process has started do nothing upon SIGTERM.

    The command `timeout` and systemd send it to all processes of a job: Java would end Spark at
    once, with traces of all that it interrupts, while Python ends the job in order.  PySpark's JVM
    ignores SIGINT already, and it ends with Python in any case.
    """
    if getattr(SparkContext._gateway, "proc", None) is None:
        return  # spark-submit's JVM is told by the signal
    jvm: Any = context._jvm
    # A handler that does nothing.  Processes that the JVM starts would inherit "ignored".
    signals = jvm.java.lang.Class.forName("sun.misc.SignalHandler")
    nothing = jvm.java.beans.EventHandler.create(signals, jvm.java.lang.Object(), "hashCode")
    jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal("TERM"), nothing)


class _WholePairs(FramedSerializer):
    """Reads the first element of pairs of byte arrays, all of them or none.

    If Java fails to read a shuffle (an executor was lost), it closes the stream to Python after the
    bytes written so far, and Spark's own serializers take that for the end.  Its task then fails,
    but ours would already have committed a batch without the rest of its payload.
    """

    def load_stream(self, stream: BinaryIO) -> Iterator[bytes]:
        while (first := _frame(stream)) is not None:
            if _frame(stream) is None:
                raise _cut_off()
            yield first


def _frame(stream: BinaryIO) -> bytes | None:
    """The next byte array, None at Java's end marker."""
    length = int.from_bytes(_exactly(stream, 4), "big", signed=True)
    if length == SpecialLengths.END_OF_DATA_SECTION:
        return None
    if length < 0:
        raise _cut_off()
    return _exactly(stream, length)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise _cut_off()
    return found


def _cut_off() -> OSError:
    return OSError("the payload of a batch was cut off: Spark failed to read its shuffle")


_PAIRS = _WholePairs()


@dataclass(frozen=True, order=True)
class Executor:
    """A live executor as the scheduler knows it."""

    id: str
    host: str

    @property
    def location(self) -> str:
        """Spark's name of this executor as a preferred location."""
        return f"executor_{self.host}_{self.id}"


def ended_executors(context: SparkContext) -> int:
    """How many executors have ended since the driver started, as far as Spark remembers them."""
    store = _scala_context(context).statusStore()
    return int(store.executorList(False).size() - store.executorList(True).size())


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
    return RDD(_to_python(jvm, java_rdd), context, _PICKLED)


def shuffled(rdd: RDD[Any], work: _Making, count: int) -> RDD[bytes]:
    """The byte arrays that `work` returns for the partitions, each moved to its named partition.

    `work` must consume all elements: Spark does not reuse a Python worker that leaves some.  This
    is PySpark's own `partitionBy` without its pickled batches of elements.
    """
    keyed: Any = rdd.mapPartitionsWithIndex(partial(_addressed, work), preservesPartitioning=True)
    keyed._bypass_serializer = True
    jvm: Any = rdd.context._jvm
    pairs = jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()
    moved = pairs.partitionBy(jvm.PythonPartitioner(count, 0))
    return RDD(jvm.PythonRDD.valueOfPair(moved), rdd.context, _RAW)


def _addressed(work: _Making, index: int, elements: Iterable[Any]) -> Iterator[bytes]:
    for partition, made in work(index, elements):
        yield partition.to_bytes(8, "big")
        yield made


def on_owners(
    payloads: RDD[bytes],
    locations: Sequence[str],
    work: _Work,
    partitions: Sequence[int],
) -> list[Any]:
    """Runs `work` over some partitions of a payload, with their numbers, at their locations.

    Spark can only give a shuffle's partition a preferred location through a product with a
    partition that has one; only the diagonal of the product of all partitions and all locations is
    run.  `zip` would require one element in each partition.

    The payload comes first and goes through the executor's disk: Spark keeps all of it there before
    it takes a Python worker.  If some of it was lost with an executor, the task fails without a
    worker, which would end with it, and with all the stores that it has open.

    Args:
        locations: the location of every partition, see `located`.
    """
    places = located(payloads.context, locations)
    count = payloads.getNumPartitions()
    parts: RDD[bytes] = RDD(payloads._jrdd.cartesian(places._jrdd), places.context, _PAIRS)
    diagonal = [p * (count + 1) for p in partitions]
    payloads.persist(StorageLevel.DISK_ONLY)
    try:
        return on_state_workers(parts, partial(_on_diagonal, work, count + 1), diagonal)
    finally:
        payloads.unpersist()


def _on_diagonal(work: _Work, step: int, index: int, parts: Iterable[bytes]) -> Iterable[Any]:
    return work(index // step, list(parts))


def on_state_workers(
    rdd: RDD[Any], work: Callable[[int, Iterable[Any]], Iterable[Any]], partitions: Sequence[int]
) -> list[Any]:
    """Runs `work` over some partitions in the Python workers that keep state."""
    context = rdd.context
    mapped = rdd.mapPartitionsWithIndex(work, preservesPartitioning=True)
    java_rdd: Any = mapped._jrdd
    # SparkContext.runJob would wrap the function again.
    jvm: Any = context._jvm
    socket = jvm.PythonRDD.runJob(_scala_context(context), java_rdd, list(partitions))
    with _load_from_socket(socket, mapped._jrdd_deserializer) as answers:
        return list(answers)


def no_numpy_to_java() -> None:
    """Removes py4j's check for NumPy arguments, which would import NumPy and pandas."""
    ours = [
        each
        for each in py4j.protocol.INPUT_CONVERTER
        if not isinstance(each, NumpyArrayConverter | NumpyScalarConverter)
    ]
    py4j.protocol.INPUT_CONVERTER[:] = ours  # the gateways' own list


def _scala_context(context: SparkContext) -> Any:
    java_context: Any = context._jsc
    return java_context.sc()


def _seq(jvm: Any, values: Any) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq()


def _to_python(jvm: Any, java_rdd: Any) -> Any:
    return jvm.org.apache.spark.api.python.SerDeUtil.javaToPython(java_rdd)
