"""What casts need that an engine lacks."""

from __future__ import annotations

from holdfast.tasks.functions.base import PythonFunction
from holdfast.tasks.plain_text import java_double

__all__ = ["CASTS"]

CASTS = (PythonFunction("DOUBLE_TEXT", java_double),)
