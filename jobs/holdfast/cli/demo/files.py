"""The demo's files, and which folders it may wipe."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import holdfast
from holdfast.errors import Refused

__all__ = ["APPLICATION_ID", "DemoFiles", "demo_sql", "last_line"]

APPLICATION_ID = "demo"
_TAIL, _WIDTH = 16_000, 90
# Airflow's, a task's elapsed time, and those of a Holdfast process within it.
_TIMES = re.compile(r"^(?:\d{4}-\d\d-\d\dT\S+Z )?(?:\[ *\d+ s\] )?(?:[\d:.]{12} [A-Z]+ +)?")
_DATA = re.compile(r"""^[\[{]|[\[{]['"]""")  # JSON and Python's own, whole or within a line
_MARK = ".holdfast-demo"  # marks a folder that the demo may wipe


def demo_sql() -> Path:
    """The demo's statements.

    Raises:
        Refused: they are missing; the package was installed without its examples.
    """
    beside = Path(holdfast.__file__).parent.parent / "examples" / "demo.sql"
    places = (beside, Path(sys.prefix, "share", "holdfast", "examples", "demo.sql"))
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise Refused(
            f"There is neither {places[0]} nor {places[1]}.",
            cause="the package was copied, not installed.",
            action="run `make demo` in a checkout, or install the wheel with pip.",
        )
    # A relative path is easier to retype.
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def last_line(log: Path, since: int = 0) -> str:
    """The last line for people in a log, after byte `since`: no times, no data, of one line."""
    with log.open("rb") as file:
        file.seek(max(since, log.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").split("\n")[:-1]
    for line in reversed(lines):
        said = _TIMES.sub("", line).strip().removesuffix(" …")
        if said and not _DATA.search(said):
            return said if len(said) <= _WIDTH else f"{said[: _WIDTH - 1]}…"
    return ""


@dataclass(frozen=True)
class DemoFiles:
    """The files of the demo's home, which it wipes at every start."""

    home: Path

    @property
    def log(self) -> Path:
        """The log of all driver processes."""
        return self.home / "deploy" / APPLICATION_ID / "driver.log"

    @property
    def airflow_log(self) -> Path:
        """Airflow's log, if it deploys the job."""
        return self.home / "airflow.log"

    @property
    def registry_log(self) -> Path:
        """Log of the command that starts the registry."""
        return self.home / "registry.log"

    @property
    def producer_log(self) -> Path:
        return self.home / "produce.log"

    @property
    def serve_log(self) -> Path:
        return self.home / "serve.log"

    @property
    def state(self) -> Path:
        """The folder of the executors' volumes."""
        return self.home / "state"

    @property
    def volume(self) -> Path:
        """One executor's volume: the folder that holds its stores."""
        return self.state / "0"

    def wipe(self) -> None:
        """Empty the home.

        Raises:
            Refused: it holds files that are not the demo's.
        """
        if self.home.is_dir() and any(self.home.iterdir()) and not self._mark.is_file():
            raise Refused(
                f"{self.home} holds files that are not the demo's.",
                action="give --home a folder that is empty or does not exist yet.",
            )
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        self._mark.touch()

    @property
    def _mark(self) -> Path:
        return self.home / _MARK
