"""A Spark session for many small frames, evaluated in this process's JVM without code generation.

A frame of a few rows is part of its plan, so that the optimizer evaluates all steps that need no
shuffle; generating and compiling code would take longer than everything else.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Sequence
from importlib.resources import files

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from holdfast.runtime.constants import InsertedRecord, constants, inserted
from holdfast.runtime.jvm.class_archive import Role, archive_options
from holdfast.types.topology import Insertion, NamedExpression

__all__ = ["SmallSession"]

_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
}


class SmallSession:
    """A separate session; frames may be made and collected in several threads."""

    def __init__(self, threads: int = 2) -> None:
        """Spark starts on first use, unless this process runs one already."""
        self._threads = threads
        self._starting = threading.Lock()
        self._session: SparkSession | None = None
        self._owned = False

    def start(self) -> None:
        """Starts Spark now."""
        _ = self._spark

    @property
    def _spark(self) -> SparkSession:
        with self._starting:
            if self._session is None:
                self._session = self._start()
            return self._session

    def _start(self) -> SparkSession:
        # The test case reports an expression that Spark refuses; the log need not repeat it.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        # A process has one Spark; a session is only active in the thread that made it.
        self._owned = SparkContext._active_spark_context is None
        root = _started(self._threads) if self._owned else SparkSession.builder.getOrCreate()
        session = root.newSession()  # does not share settings with other sessions
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        return session

    def frame(self, table: pa.Table) -> DataFrame:
        """A DataFrame of the rows of an Arrow table."""
        return self._spark.createDataFrame(table)

    def constants(self, values: Sequence[NamedExpression]) -> list[pa.Array]:
        """See `runtime.constants`."""
        return constants(self._spark, values)

    def inserted(self, insertion: Insertion) -> InsertedRecord:
        """See `runtime.constants`."""
        return inserted(self._spark, insertion)

    def collect(self, frame: DataFrame) -> pa.Table:
        """The rows of a DataFrame."""
        return frame.toArrow()

    def close(self) -> None:
        """Stops Spark if this session has started it."""
        if self._owned and self._session is not None:
            self._session.stop()
            self._session = None


def _started(threads: int) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log4j = files("holdfast.runtime.jvm") / "log4j2.properties"
    java = f"-Dlog4j2.configurationFile=file:{log4j} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    classes = archive_options(Role.DRIVER)
    return (
        SparkSession.builder.master(f"local[{threads}]")
        .appName("holdfast-test")
        .config("spark.default.parallelism", "1")
        .config("spark.driver.extraJavaOptions", f"{java} {classes}")
        .config("spark.authenticate", "true")  # its ports would accept classes from anybody
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
