"""Functions for casts that an engine lacks."""

from __future__ import annotations

from holdfast.tasks.evaluate.plain_text import java_double
from holdfast.tasks.functions.base import PythonFunction

__all__ = ["CASTS"]

CASTS = (PythonFunction("DOUBLE_TEXT", java_double),)
