"""The calls into Spark's JVM that have no Python API, pinned to the Spark version by tests.

Everything here was tried on Spark 4.3 with classic (not Connect) sessions.  `SparkEnv` must not
be touched through py4j: reflecting on it loads a class that pip's PySpark does not carry.
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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter
from pyspark.util import _load_from_socket

__all__ = [
    "Executor",
    "activate",
    "executors",
    "located",
    "no_installed_sources",
    "no_numpy_to_java",
    "on_owners",
    "on_state_workers",
    "payload",
    "shuffled",
    "with_secret",
]

_Work = Callable[[int, list[bytes]], Iterable[Any]]  # what is done with a partition's parts
# What makes byte arrays of elements, each beside the number of the partition that it is for.
_Making = Callable[[int, Iterable[Any]], Iterable[tuple[int, bytes]]]
_PICKLED = BatchedSerializer(CPickleSerializer(), 1)  # type: ignore[no-untyped-call]
_RAW = NoOpSerializer()


def with_secret(conf: SparkConf) -> None:
    """Gives the settings a secret of their own, by which processes of this Spark know each other.

    PySpark starts its JVM with every setting on the command line, which all users of the machine
    can read; what is set once the JVM runs goes there over a socket.  Spark itself hands the secret
    to local executors in their environment.
    """
    if SparkContext._active_spark_context is not None:
        return  # joined; it has one
    SparkContext._ensure_initialized(conf=conf)
    conf.set("spark.authenticate.secret", secrets.token_urlsafe(32))


class _WholePairs(FramedSerializer):
    """The second ones of pairs of byte arrays, all of them or none.

    When Java fails to read a shuffle (an executor has gone) it closes the stream to Python behind
    what it has written, and Spark's own serializers take that for the end.  Its task then fails,
    but by then ours would have committed a batch without the rest of its payload.
    """

    def load_stream(self, stream: BinaryIO) -> Iterator[bytes]:
        while _frame(stream) is not None:
            second = _frame(stream)
            if second is None:
                raise _cut_off()
            yield second


def _frame(stream: BinaryIO) -> bytes | None:
    """The next byte array, None where Java said that there are no more."""
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
    return OSError("the payload of a batch was cut off: Spark has failed to read its shuffle")


_PAIRS = _WholePairs()


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
    return RDD(_to_python(jvm, java_rdd), context, _PICKLED)


def activate(session: SparkSession) -> None:
    """What this thread plans has the session's properties; in a thread of one's own, Spark's."""
    jvm: Any = session.sparkContext._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def payload(frame: DataFrame) -> RDD[bytes]:
    """The frame as Arrow IPC record batches without schema, none or several per partition.

    They stay the bytes they are.  In any collection Java would pickle them, which makes a text of
    every byte and decodes it again in Python: half of what executors' JVMs had to do.
    """
    context: SparkContext = frame.sparkSession.sparkContext
    return RDD(frame._jdf.toArrowBatchRdd().toJavaRDD(), context, _RAW)


def shuffled(rdd: RDD[Any], work: _Making, count: int) -> RDD[bytes]:
    """What `work` makes of the partitions: byte arrays, each moved to the partition it names.

    `work` must take all elements: a Python worker that leaves some is not used again.  This is
    PySpark's own `partitionBy` without its pickled batches of elements.
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
    """Runs `work` over some partitions of a payload, with their numbers, where they belong.

    Spark has no way to prefer a place for a partition of a shuffle but by a product with a
    partition that has one; of the product of all places and all partitions the diagonal is run.
    `zip` would ask for one element in each partition.

    Args:
        locations: of every partition, see `located`.
    """
    places = located(payloads.context, locations)
    count = payloads.getNumPartitions()
    if count != len(locations):
        # Spark plans a frame it knows to be empty (`WHERE FALSE`) with fewer partitions.
        if payloads.take(1):
            raise AssertionError("a payload that is not empty has a partition for each place")
        return on_state_workers(places, partial(_without_payload, work), partitions)
    parts: RDD[bytes] = RDD(places._jrdd.cartesian(payloads._jrdd), places.context, _PAIRS)
    diagonal = [p * (count + 1) for p in partitions]
    return on_state_workers(parts, partial(_on_diagonal, work, count + 1), diagonal)


def _on_diagonal(work: _Work, step: int, index: int, parts: Iterable[bytes]) -> Iterable[Any]:
    return work(index // step, list(parts))


def _without_payload(work: _Work, index: int, places: Iterable[int]) -> Iterable[Any]:
    list(places)  # a worker that leaves some of its input is not used again
    return work(index, [])


def on_state_workers(
    rdd: RDD[Any], work: Callable[[int, Iterable[Any]], Iterable[Any]], partitions: Sequence[int]
) -> list[Any]:
    """Runs `work` over some partitions in the Python workers that keep state."""
    context = rdd.context
    mapped = rdd.mapPartitionsWithIndex(work, preservesPartitioning=True)
    java_rdd: Any = mapped._jrdd
    # SparkContext.runJob would wrap the function once more.
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


def no_numpy_to_java() -> None:
    """Calls into Java look for no NumPy among their arguments: they would load it, and pandas."""
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
