"""The class data archive of Spark's processes (JEP 350): they start in half the time.

It is in the user's cache folder, for one Java and one PySpark; `class_training` makes it once.
Driver and executors share it, so that its read-only pages are in memory once.  Java ignores an
archive that does not fit or is missing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cache
from pathlib import Path

import pyspark

__all__ = ["ARCHIVE", "archive_folder", "archive_options", "unwanted"]

ARCHIVE = "spark.jsa"  # its name in the folder

_SWITCH = "HOLDFAST_CLASS_ARCHIVE"  # "off": the archive is neither used nor made
_FORMAT = 10  # a new number makes the archive anew
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
# An archive that is mapped to the address it was made for shares its pages between processes.
# Newer Javas relocate it by default (JDK-8294323), which writes to each page.
_AS_MADE = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
)


@cache
def archive_folder() -> Path | None:
    """The folder for the archive of this Java and PySpark, made or not; None without a Java."""
    java = _java()
    if java is None:
        return None
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    library = java.parent.parent / "lib" / "server" / "libjvm.so"
    built = library.stat().st_mtime_ns if library.is_file() else 0
    told = f"{_FORMAT} {java} {built} {pyspark.__version__} {Path(pyspark.__file__).resolve()}"
    return root / "holdfast" / f"classes-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def archive_options() -> str:
    """Java options with which a process uses the archive; empty without one."""
    folder = archive_folder()
    if folder is None or unwanted():
        return ""
    archive = folder / ARCHIVE
    return f"-XX:SharedArchiveFile={archive} {_AS_MADE} {_QUIET}" if archive.is_file() else ""


def unwanted() -> bool:
    """Whether the user has switched the archive off."""
    return os.environ.get(_SWITCH) == "off"


def _java() -> Path | None:
    """The Java that Spark's scripts start, with links resolved."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    return None if found is None else Path(found).resolve()
