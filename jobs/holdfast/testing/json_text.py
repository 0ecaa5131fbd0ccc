"""JSON in test files: comments are allowed, and numbers keep every digit."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

__all__ = ["dumps", "loads", "without_comments"]

# Strings are matched first, so that what looks like a comment inside one is left alone.
_TOKENS = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def loads(text: str | bytes) -> Any:
    """Decoded JSON; numbers with a point or an exponent are `Decimal`, with their scale.

    Raises:
        ValueError: it is not JSON.
    """
    return json.loads(text, parse_float=Decimal)


def without_comments(text: str) -> str:
    """The text with blanks for comments; lines and columns stay as they are."""
    return _TOKENS.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    token = found.group()
    return token if token.startswith('"') else re.sub(r"[^\n]", " ", token)


def dumps(value: Any) -> str:
    """JSON text; a `Decimal` is written as the number it shows."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{dumps(k)}:{dumps(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dumps, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
