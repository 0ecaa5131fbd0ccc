"""Commands that run a Python module in a process of its own."""

from __future__ import annotations

import sys

__all__ = ["HOLDFAST", "module_command"]

HOLDFAST = "holdfast.cli.main"
"""The module of the command line."""


def module_command(module: str, *arguments: str) -> list[str]:
    """Returns the command that runs a module with this interpreter.

    `-P` keeps the current folder out of `sys.path`: a user's `random.py` there would take the
    place of Python's.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
