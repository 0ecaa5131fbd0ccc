"""The folders of chaos and compaction runs: `<home>/<kind>/<run>`."""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import Refused

__all__ = ["folder_of_run"]

_BYTES_MAX = 255  # of a file's name


def folder_of_run(home: str | Path, kind: str, run: str) -> Path:
    """The folder of a run's files; it may not exist yet.

    Args:
        kind: the folder of all runs of one kind, below `home`.

    Raises:
        Refused: the name is not fit for a folder.
    """
    plain = run.isprintable() and len(run.encode()) <= _BYTES_MAX
    if not plain or not run or run != Path(run).name or run.startswith("."):
        raise Refused(
            f"{run[:_BYTES_MAX]!r} is no name for a run.",
            action="take letters, digits, dots and dashes",
        )
    return Path(home).absolute() / kind / run
