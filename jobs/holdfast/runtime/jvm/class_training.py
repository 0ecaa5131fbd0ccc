"""`python -m holdfast.runtime.jvm.class_training` makes the class archive of this machine, once.

A small job runs the usual steps of a job; at exit its JVM records the classes that it has loaded.
It takes some seconds of two cores.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext

from holdfast.config.commands import module_command
from holdfast.config.settings import PlacementSettings, Settings
from holdfast.runtime.jvm.class_archive import ARCHIVE, archive_folder, archive_options, unwanted
from holdfast.runtime.jvm.session import spark_context
from holdfast.runtime.jvm.spark_internals import located, on_owners, shuffled

__all__ = ["make_archive", "start_making"]

_LOG = logging.getLogger(__name__)
_LOWEST = 19
_END_S = 300.0
_BLOB_BYTES = 1_000
_OWNER = "pyspark"  # a file with the path of the PySpark that the archive belongs to
_OWNERS = ("executor_127.0.0.1_0",) * 2


def start_making() -> None:
    """Makes a missing archive in a separate process with lowest priority."""
    folder = archive_folder()
    if folder is None or unwanted() or archive_options():
        return
    _LOG.info("Later starts will be quicker: a class archive is being made in %s", folder)
    quiet = subprocess.DEVNULL
    with suppress(OSError):
        subprocess.Popen(
            module_command(__name__),
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            start_new_session=True,
        )


def make_archive() -> None:
    """Makes the archive, unless it exists or another process is making it."""
    folder = archive_folder()
    if folder is None or unwanted() or archive_options():
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
            made = Path(work, ARCHIVE)
            if made.is_file():
                made.replace(folder / ARCHIVE)


def _sweep(folder: Path) -> None:
    """Deletes archives of removed installations, and records the owner of `folder`'s."""
    for owner in folder.parent.glob(f"classes-*/{_OWNER}"):
        if not Path(owner.read_text(encoding="utf-8")).exists():
            shutil.rmtree(owner.parent, ignore_errors=True)
    (folder / _OWNER).write_text(pyspark.__file__, encoding="utf-8")


def _train(work: Path) -> None:
    """Runs the job in a separate Python, and so with a separate JVM."""
    command = module_command("holdfast.runtime.jvm.class_training", str(work))
    subprocess.run(command, timeout=_END_S, check=False)


def _run_job(work: Path) -> None:
    """Runs a job for the driver's classes, then in the driver's JVM for the executors'."""
    for master in ("", "local[1]"):
        context = spark_context(_settings(work, master), partial(_recording, work))
        _batch(context)
        context.stop()
    _end_of_java()


def _recording(work: Path) -> tuple[str, str]:
    """Java options that record the driver's classes; its archive serves the executors as well."""
    return f"-XX:ArchiveClassesAtExit={work / ARCHIVE}", ""


def _settings(work: Path, master: str) -> Settings:
    placement = PlacementSettings(executors=1)
    return Settings("class-training", home=str(work / "home"), placement=placement, master=master)


def _batch(context: SparkContext) -> None:
    on_owners(shuffled(located(context, _OWNERS), _blobs, 2), _OWNERS, _counted, [0, 1])


def _blobs(_index: int, elements: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    for element in elements:
        yield element, bytes(_BLOB_BYTES)


def _counted(_partition: int, parts: list[bytes]) -> Iterator[int]:
    yield len(parts)


def _end_of_java() -> None:
    """Ends the driver's JVM by closing its input; it then writes its archive."""
    gateway: Any = SparkContext._gateway
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()
    process.wait(_END_S)


if __name__ == "__main__":
    os.nice(_LOWEST)
    logging.disable()
    match sys.argv[1:]:
        case [work]:
            _run_job(Path(work))
        case _:
            make_archive()
