"""The words of `holdfast run` for the statements of a test's job."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["run_command"]


def run_command(home: Path, properties: Mapping[str, str], *extra: str) -> list[str]:
    """Runs `job.sql` of the home."""
    sets = [part for name, value in properties.items() for part in ("--set", f"{name}={value}")]
    return [
        sys.executable, "-m", "holdfast.cli.main", "run", str(home / "job.sql"),
        "--home", str(home), *sets, *extra,
    ]  # fmt: skip
