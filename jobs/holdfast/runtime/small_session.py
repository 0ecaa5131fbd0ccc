"""A Spark session for many small frames: everything in this process's JVM, nothing compiled.

A frame of a few rows is part of its plan, so that the optimizer itself evaluates what needs no
shuffle; generating and compiling code for it would take longer than all the rest.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib.resources import files

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

__all__ = ["SmallSession"]

_SETTINGS = {
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class SmallSession:
    """Owns the session; frames may be made and collected in several threads."""

    def __init__(self, threads: int = 2) -> None:
        # An expression that Spark refuses is told by the case that has it, not in the log as well.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        log4j = files("holdfast.runtime") / "log4j2.properties"
        builder = SparkSession.builder.master(f"local[{threads}]").appName("holdfast-test")
        for name, value in _SETTINGS.items():
            builder = builder.config(name, value)
        self._spark = builder.config(
            "spark.driver.extraJavaOptions",
            f"-Dlog4j2.configurationFile=file:{log4j} -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        ).getOrCreate()

    def frame(self, table: pa.Table) -> DataFrame:
        """A frame of the rows of an Arrow table."""
        return self._spark.createDataFrame(table)

    def collect(self, frame: DataFrame) -> pa.Table:
        """The rows of a frame."""
        return frame.toArrow()

    def close(self) -> None:
        """Ends the session and its JVM's Spark."""
        self._spark.stop()
