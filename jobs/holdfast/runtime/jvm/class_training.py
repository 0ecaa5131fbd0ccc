"""`python -m holdfast.runtime.jvm.class_training` makes the class archives of this machine, once.

Two small jobs run the usual steps of a job, one with and one without Spark SQL; at exit their
processes record the classes that they have loaded.  It takes half a minute to a minute of two
cores, and 340 MB.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from holdfast.config.settings import PlacementSettings, Settings
from holdfast.runtime.jvm.class_archive import Role, archive_folder, has_archives, unwanted
from holdfast.runtime.jvm.session import spark_context, sql_session
from holdfast.runtime.jvm.spark_internals import located, on_owners, payload, shuffled

__all__ = ["make_archives", "start_making"]

_LOG = logging.getLogger(__name__)
_LOWEST = 19
_END_S = 300.0
_ROWS = 1_000
_OWNER = "pyspark"  # a file with the path of the PySpark that the archives belong to
_OWNERS = ("executor_127.0.0.1_0",) * 2
_SCHEMA = "k STRING, v BIGINT, t BIGINT, d BOOLEAN"


def start_making() -> None:
    """Makes missing archives in a separate process with lowest priority."""
    folder = archive_folder()
    if folder is None or unwanted() or has_archives():
        return
    _LOG.info("Later starts will be quicker: a class archive is being made in %s", folder)
    quiet = subprocess.DEVNULL
    with suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            start_new_session=True,
        )


def make_archives() -> None:
    """Makes all archives, unless they exist or another process is making them."""
    folder = archive_folder()
    if folder is None or unwanted() or has_archives():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        _sweep(folder)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            _train(Path(work))
            for made in Path(work).glob("*.jsa"):
                made.replace(folder / made.name)


def _sweep(folder: Path) -> None:
    """Deletes archives of removed installations, and records the owner of `folder`'s."""
    for owner in folder.parent.glob(f"classes-*/{_OWNER}"):
        if not Path(owner.read_text(encoding="utf-8")).exists():
            shutil.rmtree(owner.parent, ignore_errors=True)
    (folder / _OWNER).write_text(pyspark.__file__, encoding="utf-8")


def _train(work: Path) -> None:
    """Runs each job in a separate Python, and so with a separate JVM."""
    for job in _JOBS:
        command = [sys.executable, "-m", "holdfast.runtime.jvm.class_training", job, str(work)]
        subprocess.run(command, timeout=_END_S, check=False)


def _with_sql(work: Path) -> None:
    """Runs a batch with one driver and one executor, which then exit."""
    session = sql_session(spark_context(_settings(work), partial(_making, work)))
    session.dataSource.register(_Rows)
    stream = session.readStream.format(_Rows.name()).load().writeStream.foreachBatch(_batch)
    stream.trigger(availableNow=True).start().awaitTermination(int(_END_S))
    session.stop()
    _end_of_java()


def _packed(work: Path) -> None:
    """Runs a packed job for the driver's classes, then in the driver's JVM for the executors'."""
    for master in ("", "local[1]"):
        made = partial(_making, work)
        context = spark_context(_settings(work, master), made, packed=True, sql=False)
        _packed_batch(context)
        context.stop()
    _end_of_java()


def _making(work: Path, role: Role) -> str:
    """Java options that record classes; none for a packed job's executor, as the driver's serve."""
    made = role is not Role.PACKED_EXECUTOR
    return f"-XX:ArchiveClassesAtExit={work / role.archive}" if made else ""


def _settings(work: Path, master: str = "") -> Settings:
    placement = PlacementSettings(executors=1)
    return Settings("class-training", home=str(work / "home"), placement=placement, master=master)


def _batch(frame: DataFrame, _batch_id: int) -> None:
    frame.sparkSession.conf.set("spark.sql.shuffle.partitions", "2")
    grouped = frame.where("NOT d").groupBy("k").agg({"v": "sum", "t": "max", "*": "count"})
    on_owners(payload(grouped), _OWNERS, _counted, [0, 1])
    _packed_batch(frame.sparkSession.sparkContext)


def _packed_batch(context: SparkContext) -> None:
    on_owners(shuffled(located(context, _OWNERS), _blobs, 2), _OWNERS, _counted, [0, 1])


def _blobs(_index: int, elements: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    for element in elements:
        yield element, bytes(_ROWS)


def _counted(_partition: int, parts: list[bytes]) -> Iterator[int]:
    yield len(parts)


def _end_of_java() -> None:
    """Ends the driver's JVM by closing its input; it then writes its archive."""
    gateway: Any = SparkContext._gateway
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()
    process.wait(_END_S)


class _Rows(DataSource):
    """One batch of made-up rows."""

    @classmethod
    def name(cls) -> str:
        return "holdfast-training"

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: StructType) -> _Stream:  # noqa: N802 - Spark's name
        return _Stream()


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"batch": 0}

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        return {"batch": 1}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Does nothing: there is only one batch anyway."""

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[InputPartition]:
        return [InputPartition(i) for i in range(2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = range(_ROWS)
        yield pa.RecordBatch.from_pydict(
            {"k": [f"k{i % 7}" for i in rows], "v": list(rows), "t": list(rows),
             "d": [False for _ in rows]}
        )  # fmt: skip


_JOBS = {"with-sql": _with_sql, "packed": _packed}

if __name__ == "__main__":
    os.nice(_LOWEST)
    logging.disable()
    match sys.argv[1:]:
        case [job, work]:
            _JOBS[job](Path(work))
        case _:
            make_archives()
