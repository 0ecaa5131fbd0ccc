"""Functions over Java's regular expressions, for patterns that Spark SQL does not take."""

from __future__ import annotations

import re
from functools import lru_cache

from holdfast.tasks.functions.base import PythonFunction

__all__ = ["REGULAR"]

_CLASSES = {
    "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "Upper": "A-Z", "Lower": "a-z",
    "Punct": r"!-/:-@\[-`{-~", "Space": r"\s", "XDigit": "0-9a-fA-F", "L": "^\\W\\d_", "N": r"\d",
}  # fmt: skip
_NAMED = re.compile(r"\\p\{(?:Is)?(\w+)\}")
_REPLACEMENT = re.compile(r"\\(.)|\$(\d)|\$\{(\w+)\}", re.DOTALL)


@lru_cache(maxsize=256)
def _pattern(java: str) -> re.Pattern[str]:
    """Java's pattern as Python's: named classes and groups are written in another way."""
    text = _NAMED.sub(lambda m: f"[{_CLASSES[m.group(1)]}]", java)
    text = re.sub(r"\(\?<([A-Za-z]\w*)>", r"(?P<\1>", text)
    return re.compile(text, re.ASCII)


def _extract(pattern: str, text: str, group: int = 0) -> str | None:
    compiled = _pattern(pattern)
    found = compiled.search(text)
    return found.group(group) if found and 0 <= group <= compiled.groups else None


def _extract_all(pattern: str, text: str, group: int = 0) -> list[str | None] | None:
    compiled = _pattern(pattern)
    if group > compiled.groups:
        return None
    return [m.group(group) for m in compiled.finditer(text)]


def _replace(text: str, pattern: str, replacement: str) -> str:
    def literal(found: re.Match[str]) -> str:
        if found.group(1):
            return "\\\\" if found.group(1) == "\\" else found.group(1)
        return f"\\g<{found.group(2) or found.group(3)}>"

    parts = []
    end = 0
    for found in _REPLACEMENT.finditer(replacement):
        parts += [replacement[end : found.start()], literal(found)]
        end = found.end()
    return _pattern(pattern).sub("".join([*parts, replacement[end:]]), text)


def _split(text: str, pattern: str) -> list[str]:
    compiled = _pattern(pattern)
    empty = compiled.fullmatch("") is not None
    pieces: list[str] = []
    end = 0
    for found in compiled.finditer(text):
        if empty and found.end() == 0:
            continue  # nothing before the beginning
        pieces.append(text[end : found.start()])
        end = found.end()
    pieces.append(text[end:])
    while empty and len(pieces) > 1 and not pieces[-1]:
        pieces.pop()
    return pieces


REGULAR = (
    PythonFunction("REGEXP_EXTRACT", _extract),
    PythonFunction("REGEXP_EXTRACT_ALL", _extract_all),
    PythonFunction("REGEXP_REPLACE", _replace),
    PythonFunction("REGEXP_SPLIT_TO_ARRAY", _split),
)
