"""A folder where a user's files have the names of modules that Holdfast and Spark import."""

from __future__ import annotations

from pathlib import Path

__all__ = ["strange_folder"]

_NAMES = (
    "attr",
    "yaml",
    "random",
    "queue",
    "redis",
    "orjson",
    "pandas",
    "numpy",
    "duckdb",
    "token",
)


def strange_folder(parent: Path) -> Path:
    """Makes the folder, to run commands in: each of its files ends the process that imports it."""
    folder = parent / "strange"
    folder.mkdir(exist_ok=True)
    for name in _NAMES:
        (folder / f"{name}.py").write_text(f"raise SystemExit('{name} of the current folder')\n")
    return folder
