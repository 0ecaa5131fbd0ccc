"""`run.json`: the whole request of a run, so that every step starts from one file."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from holdfast.chaos.faults.words import Injection
from holdfast.chaos.load.records import LoadShape
from holdfast.config.run_folders import folder_of_run
from holdfast.errors import Refused
from holdfast.types.words import counted

__all__ = ["RunFile", "limits_in_words", "run_folder", "source_commit"]


@dataclass(frozen=True)
class RunFile:
    """One run.

    Attributes:
        name: name of the deployment or release.
        target: local or kubernetes.
        sql: the job's statements.
        config: text of its YAML file of properties, empty without one.
        overrides: its properties as `key=value`, the broker's address among them.
        duration_s: no fault begins after it, whatever is left of the schedule; 0: all of it.
        rate: records per second over all input topics.
        load: the shape of the records.
        servers: addresses of the query servers to read from; none: nothing is read.
        copies: the number of servers that hold each state partition.
        own: Kafka and the deployment belong to the run and are removed with it.
        version: Holdfast's version; `commit`: its source's commit, where known.
        created_s: seconds since the epoch.
    """

    run: str
    name: str
    target: str
    namespace: str
    sql: str
    config: str
    overrides: tuple[str, ...]
    seed: int
    schedule: tuple[Injection, ...]
    rate: int
    load: LoadShape = field(default_factory=LoadShape)
    servers: tuple[str, ...] = ()
    copies: int = 2
    own: bool = False
    duration_s: float = 0.0
    version: str = ""
    commit: str = ""
    created_s: float = 0.0

    def limits(self) -> str:
        """The limits of the run, in words."""
        return limits_in_words(len(self.schedule), self.duration_s)

    def write(self, folder: Path) -> None:
        """Writes `<folder>/run.json`.

        Raises:
            Refused: the folder already holds a run.
        """
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f".run.json.{os.getpid()}"
        beside.write_bytes(_ADAPTER.dump_json(self, indent=1))
        try:
            # A link, not a rename: it does not replace another run's file.
            (folder / "run.json").hardlink_to(beside)
        except FileExistsError as error:
            raise Refused(
                f"There is a run in {folder} already.",
                action="give this one another name (--run), or remove that folder",
            ) from error
        finally:
            beside.unlink()

    @staticmethod
    def read(folder: Path) -> RunFile:
        """Reads the file that `write` wrote.

        Raises:
            Refused: it is missing or cannot be read.
        """
        try:
            return _ADAPTER.validate_json((folder / "run.json").read_bytes())
        except (OSError, ValidationError) as error:
            raise Refused(
                f"There is no run in {folder}: {error}.",
                action="begin with `holdfast chaos precheck`; --home and --run say where",
            ) from error


_ADAPTER = TypeAdapter(RunFile)


def limits_in_words(faults: int, duration_s: float) -> str:
    """The limits of a run: number of faults and duration."""
    if not duration_s:
        return counted(faults, "fault")
    return (
        f"at most {counted(faults, 'fault')}, none after {dt.timedelta(seconds=round(duration_s))}"
    )


def run_folder(home: str | Path, run: str) -> Path:
    """The folder of a run's files.

    Raises:
        Refused: the name is not fit for a folder.
    """
    return folder_of_run(home, "chaos", run)


def source_commit() -> str:
    """The commit of the source that this process runs from; empty outside a checkout."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""
