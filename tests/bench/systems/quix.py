"""Quix Streams: two processes in one consumer group, exactly-once, in an environment of its own."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.errors import Refused
from tests.bench.systems.peers import Case, Command, Restored
from tests.bench.workloads import TABLES

__all__ = ["Quix"]

REQUIREMENTS = Path(__file__).parent / "requirements-quix.txt"
_APP = Path(__file__).parent / "apps" / "quix_app.py"
_PROCESSES = 2


class Quix:
    """Runs apps/quix_app.py; `tools` is where its virtual environment is kept."""

    name = "quix"
    title = "Quix Streams"
    can_restore = False
    rescaling = None
    reads_registered = False
    queries = TABLES

    def __init__(self, tools: Path) -> None:
        self._venv = tools / "quix"
        pin = next(t for t in REQUIREMENTS.read_text().split() if t.startswith("quixstreams=="))
        self.notes = (
            f"{pin.partition('==')[2]}, exactly-once, changelog topics on, RocksDB, "
            f"{_PROCESSES} processes, otherwise defaults (a commit every 5 s); not (h) to (k)"
        )

    def prepare(self, report: Callable[[str], None]) -> None:
        stamp = self._venv / ".installed"
        wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        report("installing Quix Streams")
        pip = [str(self._venv / "bin" / "python"), "-m", "pip", "--no-input", "install", "--quiet"]
        make = [sys.executable, "-m", "venv", "--clear", str(self._venv)]
        for command in (make, [*pip, "--require-hashes", "-r", str(REQUIREMENTS)]):
            ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
            if ran.returncode:
                raise Refused(
                    f"Quix Streams could not be installed: {ran.stderr[-500:]}",
                    action="connect to a package index, or leave the peer quix out (--peer).",
                )
        stamp.write_text(wanted)

    def commands(self, case: Case) -> list[Command]:
        python = str(self._venv / "bin" / "python")
        argv = [python, str(_APP), case.bootstrap, case.application, case.input_topic]
        argv += [case.sink_topic, case.query.value]
        quiet = {"PYTHONWARNINGS": "ignore", "PYTHONPATH": ""}
        return [Command([*argv, str(case.folder / f"state-{n}")], quiet) for n in range(_PROCESSES)]

    def group(self, case: Case) -> str:
        return case.application

    def state_folders(self, case: Case) -> list[Path]:
        return [case.folder / f"state-{n}" for n in range(_PROCESSES)]

    def restored(self, case: Case) -> Restored | None:
        """Not measured: Quix Streams does not tell."""
        return None

    def volume_of(self, case: Case, pid: int) -> Path:
        return self.state_folders(case)[0]

    def victim(self, case: Case, pids: Sequence[int]) -> tuple[int, bool]:
        return pids[0], True
