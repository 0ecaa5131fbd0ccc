"""Archives of the classes that Spark's processes load (JEP 350): they start in half the time.

They are in the user's cache folder, for one Java and one PySpark (`holdfast.runtime.jvm.class_training`
makes them, once).  There is one for each role, but one for both of packed jobs: what Java only
reads of it is in memory once.  With Spark SQL that would cost executors more than it gave.  Java
looks whether an archive fits; one that does not, or is gone, it does without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from enum import StrEnum
from functools import cache
from pathlib import Path

import pyspark

__all__ = ["Role", "archive_folder", "archive_options", "has_archives", "unwanted"]

_SWITCH = "HOLDFAST_CLASS_ARCHIVE"  # "off": neither used nor made
_FORMAT = 9  # another number makes all archives anew
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
# Mapped to the address it was made for, an archive's pages are the file's, shared by all who read
# them.  Newer Javas move it elsewhere by default (JDK-8294323) and so write to each of its pages.
_AS_MADE = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
)


class Role(StrEnum):
    """The kinds of Spark's processes: each loads classes of its own."""

    DRIVER = "driver"
    EXECUTOR = "executor"
    PACKED_DRIVER = "packed-driver"  # no Spark SQL: half the classes, half the memory
    PACKED_EXECUTOR = "packed-executor"

    @property
    def archive(self) -> str:
        """The name of its archive's file."""
        return "packed.jsa" if self.startswith("packed") else f"{self}.jsa"


@cache
def archive_folder() -> Path | None:
    """Where the archives of this Java and this PySpark are, made or not; None without a Java."""
    java = _java()
    if java is None:
        return None
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    library = java.parent.parent / "lib" / "server" / "libjvm.so"
    built = library.stat().st_mtime_ns if library.is_file() else 0
    told = f"{_FORMAT} {java} {built} {pyspark.__version__} {Path(pyspark.__file__).resolve()}"
    return root / "holdfast" / f"classes-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def archive_options(role: Role) -> str:
    """Java options for a process of that role to use its archive; empty when there is none."""
    folder = archive_folder()
    if folder is None or unwanted():
        return ""
    archive = folder / role.archive
    return f"-XX:SharedArchiveFile={archive} {_AS_MADE} {_QUIET}" if archive.is_file() else ""


def has_archives() -> bool:
    """Is there one for each role?"""
    return all(archive_options(role) for role in Role)


def unwanted() -> bool:
    """Has the user switched them off?"""
    return os.environ.get(_SWITCH) == "off"


def _java() -> Path | None:
    """The Java that Spark's scripts start, links followed."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    return None if found is None else Path(found).resolve()
