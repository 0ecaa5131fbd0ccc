"""Functions over Java's regular expressions, and LIKE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

import re2

from holdfast.tasks.functions.base import PythonFunction
from holdfast.tasks.functions.java.regex import Found, JavaRegex, compiled, java_regex
from holdfast.tasks.functions.limits import ITEMS_MAX, room

__all__ = ["REGULAR"]

_REPLACEMENT = re.compile(r"\\(.)|\$([0-9]+)|\$\{([A-Za-z][A-Za-z0-9]*)\}|([\\$])", re.DOTALL)


def _extract(pattern: str, text: str, group: int = 0) -> str | None:
    regex = java_regex(pattern)
    found = regex.find(text)
    return found.group(group) if found and 0 <= group <= regex.groups else None


def _extract_all(pattern: str, text: str, group: int = 0) -> list[str | None] | None:
    regex = java_regex(pattern)
    if group > regex.groups:
        return None
    return [found.group(group) for found in islice(regex.finds(text), ITEMS_MAX + 1)]


def _replace(text: str, pattern: str, replacement: str) -> str:
    regex = java_regex(pattern)
    parts = _parts(replacement, regex)
    made: list[str] = []
    end = size = 0
    for found in regex.finds(text):
        more = [text[end : found.start], *_filled(parts, found)]
        size += sum(map(len, more))
        room(size)
        made += more
        end = found.end
    return "".join([*made, text[end:]])


def _filled(parts: list[str | int], found: Found) -> Iterator[str]:
    for part in parts:
        yield part if isinstance(part, str) else found.group(part) or ""


def _parts(replacement: str, regex: JavaRegex) -> list[str | int]:
    """The texts and group numbers of a replacement."""
    parts: list[str | int] = []
    end = 0
    for found in _REPLACEMENT.finditer(replacement):
        literal, number, name, wrong = found.groups()
        if wrong is not None:
            raise ValueError(f"a {wrong} with nothing behind it")
        parts.append(replacement[end : found.start()])
        if number is not None:
            parts += _numbered(number, regex.groups)
        else:
            parts.append(regex.names[name] if literal is None else literal)
        end = found.end()
    return [*parts, replacement[end:]]


def _numbered(digits: str, groups: int) -> list[str | int]:
    """The longest group number that exists, and the remaining digits."""
    count = max((n for n in range(1, len(digits) + 1) if int(digits[:n]) <= groups), default=0)
    if count == 0:
        raise ValueError(f"there is no group {digits[0]}")
    return [int(digits[:count]), digits[count:]]


def _split(text: str, pattern: str) -> list[str]:
    regex = java_regex(pattern)
    nothing = regex.find("")
    empty = nothing is not None
    pieces: list[str] = []
    end = 0
    for found in islice(regex.finds(text), ITEMS_MAX + 1):
        if empty and found.end == 0:
            continue  # an empty match at the beginning gives no empty part
        pieces.append(text[end : found.start])
        end = found.end
    pieces.append(text[end:])
    while empty and len(pieces) > 1 and not pieces[-1]:
        pieces.pop()
    return pieces


def _like(text: str, pattern: str, escape: str = "") -> bool:
    return _like_regex(pattern, escape).fullmatch(text) is not None


@lru_cache(maxsize=256)
def _like_regex(pattern: str, escape: str) -> re2._Regexp:
    made: list[str] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            made.append(re2.escape(next(letters)))
        else:
            made.append({"%": "(?s:.*)", "_": "(?s:.)"}.get(letter) or re2.escape(letter))
    return compiled("".join(made))


REGULAR = (
    PythonFunction("LIKE", _like),
    PythonFunction("REGEXP_EXTRACT", _extract),
    PythonFunction("REGEXP_EXTRACT_ALL", _extract_all),
    PythonFunction("REGEXP_REPLACE", _replace),
    PythonFunction("REGEXP_SPLIT_TO_ARRAY", _split),
)
