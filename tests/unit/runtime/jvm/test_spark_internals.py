"""The calls into Spark's JVM that have no Python API (`runtime/jvm/__init__.py` lists them)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.core.rdd import RDD
from pyspark.errors import PySparkException
from pyspark.serializers import NoOpSerializer

from holdfast.runtime.jvm.spark_internals import (
    Executor,
    executors,
    located,
    on_owners,
    on_state_workers,
    shuffled,
    with_secret,
)

PLACES = ["executor_a_0", "executor_b_1"]


def _made(index: int, elements: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    assert list(elements) == [index]
    for partition in (0, 3, 0):
        yield partition, b"%d for %d" % (index, partition)


def _sorted_parts(partition: int, parts: list[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    yield partition, sorted(parts)


def test_byte_arrays_are_moved_to_the_partitions_they_name(spark_context: SparkContext) -> None:
    moved = shuffled(located(spark_context, PLACES), _made, 4)
    owners = ["executor_a_0"] * 4
    assert on_owners(moved, owners, _sorted_parts, [0, 1, 3]) == [
        (0, [b"0 for 0", b"0 for 0", b"1 for 0", b"1 for 0"]),
        (1, []),
        (3, [b"0 for 3", b"1 for 3"]),
    ]


def _bytes_of_every_kind(_index: int, elements: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    for _ in elements:
        yield from ((1, b""), (1, bytes(range(256)) * 5_000), (0, b"\xff\xff\xff\xff"))


def test_a_payload_stays_the_bytes_it_is(spark_context: SparkContext) -> None:
    moved = shuffled(located(spark_context, PLACES[:1]), _bytes_of_every_kind, 2)
    found = dict(on_owners(moved, PLACES, _sorted_parts, [0, 1]))
    assert found == {0: [b"\xff\xff\xff\xff"], 1: [b"", bytes(range(256)) * 5_000]}


def test_a_partition_number_has_eight_bytes(spark_context: SparkContext) -> None:
    def far(_index: int, elements: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        for _ in elements:
            yield 299, b"far"

    moved = shuffled(located(spark_context, PLACES[:1]), far, 300)
    found = on_owners(moved, ["executor_a_0"] * 300, _sorted_parts, [299, 43])
    assert found == [(299, [b"far"]), (43, [])]


def _preferred(context: SparkContext, java_rdd: Any, at: int) -> list[str]:
    java_context: Any = context._jsc
    found = java_context.sc().getPreferredLocs(java_rdd.rdd(), at)
    return [str(found.apply(i)) for i in range(found.size())]


def test_a_task_prefers_the_location_that_it_is_given(spark_context: SparkContext) -> None:
    rdd = located(spark_context, PLACES)
    assert rdd.collect() == [0, 1]
    found = [_preferred(spark_context, rdd._jrdd, at) for at in (0, 1)]
    assert found == [[place] for place in PLACES]


def test_a_payloads_partition_prefers_its_owner(spark_context: SparkContext) -> None:
    moved = shuffled(located(spark_context, PLACES), _made, 2)
    product: Any = moved._jrdd.cartesian(located(spark_context, PLACES)._jrdd)
    assert [_preferred(spark_context, product, at)[0] for at in (0, 3)] == PLACES


def _failing(_index: int, elements: Iterable[int]) -> Iterator[bytes]:
    for element in elements:
        yield b"first"
        yield b"second"
        if element == 0:
            raise RuntimeError("gone")


def _noted(folder: str, partition: int, parts: list[bytes]) -> Iterator[int]:
    Path(folder, str(partition)).touch()
    yield len(parts)


def test_a_payload_that_is_cut_off_is_not_worked_on(
    spark_context: SparkContext, tmp_path: Path
) -> None:
    """With Spark's own serializers, the first part would be committed as if it were all."""
    made: Any = located(spark_context, PLACES).mapPartitionsWithIndex(_failing)
    made._bypass_serializer = True
    payload: RDD[bytes] = RDD(made._jrdd, spark_context, NoOpSerializer())
    work = partial(_noted, str(tmp_path))
    # A session of Spark SQL, if another test made one, turns Java's errors into its own.
    with pytest.raises((Py4JJavaError, PySparkException), match="gone"):
        on_owners(payload, PLACES, work, [0])
    assert not list(tmp_path.iterdir())
    assert on_owners(payload, PLACES, work, [1]) == [2]
    assert [found.name for found in tmp_path.iterdir()] == ["1"]


def _counted(index: int, elements: Iterable[int]) -> Iterator[tuple[int, int]]:
    yield index, len(list(elements))


def test_only_the_wanted_partitions_are_run(spark_context: SparkContext) -> None:
    rdd = located(spark_context, PLACES * 2)
    assert on_state_workers(rdd, _counted, [3, 1]) == [(3, 1), (1, 1)]


def test_the_driver_is_no_executor(spark_context: SparkContext) -> None:
    assert executors(spark_context) == []
    assert Executor("7", "10.0.0.5").location == "executor_10.0.0.5_7"


def test_a_spark_that_is_joined_has_a_secret_already(spark_context: SparkContext) -> None:
    conf = SparkConf(loadDefaults=False)
    with_secret(conf)
    assert not conf.contains("spark.authenticate.secret")
    assert spark_context is SparkContext._active_spark_context


FRESH = """
from pyspark import SparkConf, SparkContext
from holdfast.runtime.jvm.spark_internals import (
    leave_sigterm_to_python, no_numpy_to_java, with_secret)
import py4j.protocol, signal, sys, time
no_numpy_to_java()
conf = SparkConf().setMaster("local[1]").setAppName("a").set("spark.ui.enabled", "false")
conf.set("spark.driver.host", "127.0.0.1").set("spark.authenticate", "true")
with_secret(conf)
command = open(f"/proc/{SparkContext._gateway.proc.pid}/cmdline").read()
print(len(conf.get("spark.authenticate.secret")), "authenticate.secret" in command)
context = SparkContext(conf=conf)
print(context._conf.get("spark.authenticate.secret") == conf.get("spark.authenticate.secret"))
converters = context._gateway.gateway_client.converters
print(converters is py4j.protocol.INPUT_CONVERTER, len(converters) > 0)
print(context._jvm.java.util.ArrayList([1, 2]).size(), "numpy" in sys.modules)
process = SparkContext._gateway.proc
leave_sigterm_to_python(context)
process.send_signal(signal.SIGTERM)
time.sleep(1)
print(context.parallelize([1, 2], 1).count())
context.stop()
process.stdin.close()
print(process.wait(60))
"""


def test_a_spark_of_ones_own_has_a_secret_no_numpy_and_an_end() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["43 False", "True", "True True", "2 False", "2", "0"]


LOST = """
import os, pathlib, signal, sys, time
from functools import partial
import psutil
from holdfast.config.settings import Settings
from holdfast.runtime.jvm.session import spark_context
from holdfast.runtime.jvm.spark_internals import executors, located, on_owners, shuffled

def made(_index, elements):
    for element in elements:
        yield from ((0, b"%d" % element), (1, b"%d" % element))

def told(marker, partition, parts):
    if partition == 1 and not marker.exists():
        marker.touch()
        java = next(p.pid for p in psutil.Process().parents() if "java" in p.name())
        os.kill(java, signal.SIGKILL)
        time.sleep(60)
    yield os.getpid(), sorted(parts)

if __name__ == "__main__":
    home = pathlib.Path(sys.argv[1])
    context = spark_context(Settings("lost", home=str(home)), lambda: ("", ""))
    while len(executors(context)) < 2:
        time.sleep(0.1)
    owners = [e.location for e in executors(context)]
    payload = shuffled(located(context, owners), made, 2)
    (worker, _), = on_owners(payload, owners, partial(told, home / "killed"), [0])
    found = on_owners(payload, owners, partial(told, home / "killed"), [0, 1])
    print([parts for _, parts in found], found[0][0] == worker)
    (after, _), = on_owners(payload, owners[:1] * 2, partial(told, home / "killed"), [0])
    print(after == worker)
    context.stop()
"""


def _lines_of(script: str, home: Path) -> list[str]:
    """Runs a script with the path of `home`, and returns the lines that it prints."""
    path = home / "script.py"
    path.write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, path, home], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_worker_outlives_a_payload_that_was_lost(tmp_path: Path) -> None:
    """Its stores would have to be opened again, with their logs, while the table stands still."""
    told = "[[b'0', b'1'], [b'0', b'1']] True"
    assert _lines_of(LOST, tmp_path) == [told, "True"]


LARGE = """
import sys, time
from holdfast.config.settings import PlacementSettings, Settings
from holdfast.runtime.jvm.session import spark_context
from holdfast.runtime.jvm.spark_internals import executors, located, on_owners, shuffled

def made(_index, elements):
    for _ in elements:
        for _ in range(40):
            yield 0, bytes(20 << 20)

def told(_partition, parts):
    yield len(parts), {len(part) for part in parts}

if __name__ == "__main__":
    placement = PlacementSettings(executors=1, executor_memory_mb=471)
    settings = Settings("large", home=sys.argv[1], placement=placement)
    context = spark_context(settings, lambda: ("", ""))
    while not executors(context):
        time.sleep(0.1)
    owners = [e.location for e in executors(context)]
    for _ in range(2):
        print(on_owners(shuffled(located(context, owners), made, 1), owners, told, [0]))
    print(context._jsc.getPersistentRDDs().size())
    context.stop()
"""


def test_a_payload_may_exceed_the_heap(tmp_path: Path) -> None:
    """Records may be large; and nothing of a batch is kept after it."""
    assert _lines_of(LARGE, tmp_path) == ["[(40, {20971520})]"] * 2 + ["0"]


EARLY = """
import sys, threading
from pyspark import SparkContext
from holdfast.config.settings import PlacementSettings, Settings
from holdfast.runtime.jvm.session import spark_context, start_java

if __name__ == "__main__":
    settings = Settings("early", home=sys.argv[1], placement=PlacementSettings(executors=1))
    start_java(settings)
    next(t for t in threading.enumerate() if t.name == "java").join()
    java = SparkContext._gateway.proc
    context = spark_context(settings, lambda: ("", ""))
    print(java is SparkContext._gateway.proc, context.appName, context.parallelize([1], 1).count())
    context.stop()
"""


def test_a_java_that_was_started_early_is_the_drivers(tmp_path: Path) -> None:
    assert _lines_of(EARLY, tmp_path) == ["True early 1"]
