"""Class data archives of Spark's processes (JEP 350): processes start in half the time.

They are in the user's cache folder, for one Java and one PySpark; `class_training` makes them once.
There is one archive per role, except that the driver and the executors of packed jobs share one, so
that its read-only pages are in memory once.  With Spark SQL sharing would cost executors more than
it saves.  Java ignores an archive that does not fit or is missing.
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

_SWITCH = "HOLDFAST_CLASS_ARCHIVE"  # "off": archives are neither used nor made
_FORMAT = 9  # a new number rebuilds all archives
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
# An archive that is mapped to the address it was made for shares its pages between processes.
# Newer Javas relocate it by default (JDK-8294323), which writes to each page.
_AS_MADE = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
)


class Role(StrEnum):
    """The kinds of Spark's processes; each loads different classes."""

    DRIVER = "driver"
    EXECUTOR = "executor"
    PACKED_DRIVER = "packed-driver"  # no Spark SQL: half the classes, half the memory
    PACKED_EXECUTOR = "packed-executor"

    @property
    def archive(self) -> str:
        """The file name of the role's archive."""
        return "packed.jsa" if self.startswith("packed") else f"{self}.jsa"


@cache
def archive_folder() -> Path | None:
    """The folder for archives of this Java and PySpark, made or not; None without a Java."""
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
    """Java options with which a process of that role uses its archive; empty without one."""
    folder = archive_folder()
    if folder is None or unwanted():
        return ""
    archive = folder / role.archive
    return f"-XX:SharedArchiveFile={archive} {_AS_MADE} {_QUIET}" if archive.is_file() else ""


def has_archives() -> bool:
    """Whether there is an archive for each role."""
    return all(archive_options(role) for role in Role)


def unwanted() -> bool:
    """Whether the user has switched archives off."""
    return os.environ.get(_SWITCH) == "off"


def _java() -> Path | None:
    """The Java that Spark's scripts start, with links resolved."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    return None if found is None else Path(found).resolve()
