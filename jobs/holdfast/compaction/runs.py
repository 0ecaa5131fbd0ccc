"""Where a compaction run keeps its files: `<home>/compaction/<run>/`.

survey.json, survey.png    the facts found           verified.json    predicted against real
plan.json                  the planned changes       report.html, .png   the same for people
applied.json               what was done             ../history.jsonl    of all runs
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from holdfast.config.run_folders import folder_of_run
from holdfast.errors import Refused

__all__ = [
    "APPLIED",
    "HISTORY",
    "PLAN",
    "REPORT_PAGE",
    "REPORT_PLOT",
    "SURVEY",
    "SURVEY_PLOT",
    "VERIFIED",
    "history_file",
    "new_run",
    "newest_run",
    "read_file",
    "run_folder",
    "write_file",
]

SURVEY = "survey.json"
SURVEY_PLOT = "survey.png"
PLAN = "plan.json"
APPLIED = "applied.json"
VERIFIED = "verified.json"
REPORT_PAGE = "report.html"
REPORT_PLOT = "report.png"
HISTORY = "history.jsonl"

_KIND = "compaction"
_T = TypeVar("_T")


def new_run() -> str:
    """The name of a run without a given name: the local time, `20261121-114500`."""
    return time.strftime("%Y%m%d-%H%M%S")


def run_folder(home: str | Path, run: str) -> Path:
    """The folder of a run's files; it may not exist yet.

    Raises:
        Refused: the name is not fit for a folder.
    """
    return folder_of_run(home, _KIND, run)


def history_file(home: str | Path) -> Path:
    """The file with the predictions and outcomes of all runs."""
    return Path(home).absolute() / _KIND / HISTORY


def newest_run(home: str | Path) -> str:
    """The name of the run whose survey was written last.

    Raises:
        Refused: nothing was surveyed yet.
    """
    folder = Path(home).absolute() / _KIND
    surveys = [(path.stat().st_mtime_ns, path.parent.name) for path in folder.glob(f"*/{SURVEY}")]
    if not surveys:
        raise Refused(
            f"There is no run in {folder}.", action="run `holdfast compaction survey` first"
        )
    return max(surveys)[1]


def read_file(path: Path, adapter: TypeAdapter[_T], what: str, action: str) -> _T:
    """Reads a run's file.

    Args:
        what: the kind of file, in words.
        action: the advice if it cannot be read.

    Raises:
        FileNotFoundError: there is none.
        Refused: it cannot be read.
    """
    try:
        return adapter.validate_json(path.read_bytes())
    except ValidationError as error:
        raise Refused(
            f"{path} is no {what} that this Holdfast reads: {error.error_count()} fields are "
            "wrong.",
            cause="it was edited by hand, or written by another version",
            action=action,
        ) from error


def write_file(path: Path, data: bytes) -> None:
    """Writes a run's file whole or not at all; its folder is made when missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
