"""A reader's folder, in which commands run as the pages show them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["COMMAND_S", "PORT", "Place"]

COMMAND_S = 240
PORT = ":8088"
"""What the pages say; `Place` puts a free port in its place."""

_HOLDFAST = """#!/bin/bash
if [[ "${1-}" =~ ^(kafka|registry)$ && "${2-}" == start ]]; then set -- "$@" --port 0; fi
exec '%s' -m holdfast.cli.main "$@"
"""
_PYTHON = """#!/bin/bash
exec '%s' "$@"
"""


@dataclass(frozen=True)
class Place:
    """A reader's folder, and the port that the pages' 8088 stands for.

    A broker or a registry takes any port that is free; everything else is as typed.

    Attributes:
        port: None: nothing listens at the pages' 8088.
    """

    folder: Path
    port: int | None = None

    def make_tools(self) -> None:
        """Put `holdfast` and `python` of this environment where `run` finds them."""
        (self.folder / "bin").mkdir()
        for name, text in (("holdfast", _HOLDFAST), ("python", _PYTHON)):
            tool = self.folder / "bin" / name
            tool.write_text(text % sys.executable, encoding="utf-8")
            tool.chmod(0o755)

    def run(self, command: str, status: int = 0) -> str:
        """Runs a command of a page; returns what it prints."""
        process = self.start(command)
        try:
            told, _ = process.communicate(timeout=COMMAND_S)
        finally:
            process.kill()
        assert process.returncode == status, f"{command}\n{told}"
        return told

    def start(self, command: str) -> subprocess.Popen[str]:
        """Starts it in bash, with nothing to type into it."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        given = {"PATH": path, "HOLDFAST_EXECUTORS": "1"}
        if self.port is not None:
            given["HOLDFAST_CLI_SERVERS"] = f"http://127.0.0.1:{self.port}"
            command = command.replace(PORT, f":{self.port}")
        return subprocess.Popen(
            ["bash", "-ec", command],
            cwd=self.folder,
            env=os.environ | given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
