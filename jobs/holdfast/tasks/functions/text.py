"""Functions over text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from holdfast.tasks.functions.base import PythonFunction
from holdfast.tasks.functions.limits import TooLargeError, room, room_for

__all__ = ["TEXT"]

_CODE_POINTS = 0x110000
_WORD = re.compile(r"[^\s]+\s*")
_MASKS = ("X", "x", "n", "-")
_CATEGORIES = {"Lu": 0, "Ll": 1, "Nd": 2}
_ESCAPE = re.compile(r"\\u+([0-9A-Fa-f]{4})|\\([0-7]{1,3})|\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _initcap(text: str) -> str:
    words = _WORD.findall(text.lower())
    return "".join(w[:1].upper() + w[1:] for w in words)


def _instr(text: str | None, part: str | None, position: int = 1, occurrence: int = 1) -> int:
    """The place, from 1, of an occurrence from a position on; a negative position looks back."""
    if text is None or part is None or abs(position) > len(text):
        return 0
    if position < 0:
        index = _ordinal(text[::-1], part[::-1], -position, occurrence)
        return 0 if index < 0 else len(text) - index - len(part) + 1
    return _ordinal(text, part, position, occurrence) + 1


def _ordinal(text: str, part: str, position: int, occurrence: int) -> int:
    """The index of the occurrence, -1 when it is not there."""
    found = position - 2 if position > 0 else len(text) - 2
    for _ in range(max(occurrence, 0)):
        found = text.find(part, found + 1)
        if found < 0:
            return -1
    return found if occurrence > 0 else -1


def _chr(code: int | str) -> str | None:
    if isinstance(code, int):
        return chr(code) if 0 <= code < _CODE_POINTS else None
    if len(code) < 6 or not code.startswith("\\u"):
        return None
    text = _ESCAPE.sub(_unescaped, code)
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def _unescaped(found: re.Match[str]) -> str:
    unicode, octal, other = found.groups()
    if unicode:
        return chr(int(unicode, 16))
    return chr(int(octal, 8)) if octal else _ESCAPED.get(other, other)


def _masked(text: str, masks: tuple[str | None, ...]) -> str:
    if any(m is not None and len(m) != 1 for m in masks):
        raise ValueError("a mask is one character")
    kinds = (masks[_CATEGORIES.get(unicodedata.category(c), 3)] for c in text)
    return "".join(c if mask is None else mask for c, mask in zip(text, kinds, strict=True))


def _mask(text: str | None, *masks: str | None) -> str | None:
    return None if text is None else _masked(text, masks or _MASKS)


def _part(which: Callable[[int, int], int], *, first: bool) -> Callable[..., str | None]:
    """Masks text before (`first`) or after a place that depends on length and count."""

    def mask(text: str | None, count: int | None, *masks: str | None) -> str | None:
        if text is None or count is None or count < 0:
            return None
        place = which(len(text), count)
        before, after = text[:place], text[place:]
        with_masks = masks or _MASKS
        return _masked(before, with_masks) + after if first else before + _masked(after, with_masks)

    return mask


def _from_left(length: int, count: int) -> int:
    return min(count, length)


def _from_right(length: int, count: int) -> int:
    return max(0, length - count)


def _replace(text: str, old: str, new: str) -> str:
    if len(new) > len(old):
        count = text.count(old) if old else len(text) + 1
        room(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new)


def _too_large(name: str, size: int, most: int) -> None:
    """Fails for a call whose result would be too large; DuckDB evaluates it before the call."""
    if size > most:
        raise TooLargeError(f"{size} bytes or items in one value", name)


def _split(text: str, delimiter: str) -> list[str]:
    room_for(text.count(delimiter) if delimiter else len(text))
    if not delimiter:
        return list(text) or [""]
    return text.split(delimiter)


def _trim(text: str) -> str:
    return text.strip("".join(map(chr, range(33))))


def _concat_ws(separator: str | None, *values: str | None) -> str | None:
    return None if separator is None else separator.join(v for v in values if v is not None)


TEXT = (
    PythonFunction("CHR", _chr),
    PythonFunction("CONCAT_WS", _concat_ws, nulls=True),
    PythonFunction("INITCAP", _initcap),
    PythonFunction("INSTR", _instr, nulls=True),
    PythonFunction("MASK", _mask, nulls=True),
    PythonFunction("MASK_LEFT", _part(_from_left, first=True), nulls=True),
    PythonFunction("MASK_RIGHT", _part(_from_right, first=False), nulls=True),
    PythonFunction("MASK_KEEP_LEFT", _part(_from_left, first=False), nulls=True),
    PythonFunction("MASK_KEEP_RIGHT", _part(_from_right, first=True), nulls=True),
    PythonFunction("REPLACE", _replace),
    PythonFunction("TOO_LARGE", _too_large),
    PythonFunction("SPLIT", _split),
    PythonFunction("TRIM", _trim),
)
