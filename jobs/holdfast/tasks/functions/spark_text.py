"""Spark SQL's own functions over text, by its rules."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.functions.base import PythonFunction, Types

__all__ = ["SPARK_TEXT"]

_SOUNDEX = "01230127022455012623017202"  # A to Z; 7 is skipped as if it were not there
_CODE_LENGTH = 4
_INT_MAX = 2**31 - 1
_JAVA_BLANKS = re.compile(r"[^\S\u00a0\u2007\u202f\u0085]+")


def _substr(text: str, position: int, length: int = _INT_MAX) -> str:
    """Like SUBSTRING, but a place before the text counts: SUBSTR('abc', -5, 3) is 'a'."""
    start = position - 1 if position > 0 else len(text) + position if position else 0
    return text[max(start, 0) : max(start + length, 0)]


def _substring_index(text: str, delimiter: str, count: int) -> str:
    """The text before the delimiter's occurrence `count`; a negative one counts from the end.

    Occurrences may overlap.
    """
    if not delimiter or not count:
        return ""
    at = -1 if count > 0 else len(text) - len(delimiter) + 1
    for _ in range(abs(count)):
        at = text.find(delimiter, at + 1) if count > 0 else _before(text, delimiter, at)
        if at < 0:
            return text
    return text[:at] if count > 0 else text[at + len(delimiter) :]


def _before(text: str, part: str, at: int) -> int:
    """The last index of a part that begins before `at`; -1 if there is none."""
    return text.rfind(part, 0, at - 1 + len(part)) if at > 0 else -1


def _soundex(text: str) -> str:
    first = text[:1].upper() if text[:1].isascii() else ""
    if not first.isalpha():
        return text
    code, last = first, _sound(first)
    for letter in text[1:]:
        sound = _sound(letter)
        if sound not in "07" and sound != last:
            code += sound
        if len(code) == _CODE_LENGTH:
            break
        last = last if sound == "7" else sound
    return code.ljust(_CODE_LENGTH, "0")


def _sound(letter: str) -> str:
    """A letter's digit; 0 for what is no letter of the alphabet."""
    known = letter.isascii() and letter.isalpha()
    return _SOUNDEX[ord(letter.upper()) - ord("A")] if known else "0"


def _levenshtein(left: str, right: str) -> int:
    """The edit distance, by Hyyrö's bit vectors: one number has a bit for each letter of `left`."""
    if not left or not right:
        return len(left) + len(right)
    places: dict[str, int] = {}
    for i, letter in enumerate(left):
        places[letter] = places.get(letter, 0) | 1 << i
    mask, last = (1 << len(left)) - 1, 1 << (len(left) - 1)
    up, down, distance = mask, 0, len(left)
    for letter in right:
        same = places.get(letter, 0)
        zero = (((same & up) + up) ^ up) | same | down
        right_up, right_down = down | (~(zero | up) & mask), up & zero
        distance += bool(right_up & last) - bool(right_down & last)
        right_up = (right_up << 1 | 1) & mask
        up = (right_down << 1 | (~(zero | right_up) & mask)) & mask
        down = right_up & zero
    return distance


def _base64(text: str) -> bytes | None:
    """Base64 as Spark's try_to_binary reads it: blanks may stand in it, padding may be missing."""
    body = _JAVA_BLANKS.sub("", text)
    if not re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", body):
        return None
    bare = body.rstrip("=")
    if len(bare) % 4 == 1 or (bare != body and len(body) % 4):
        return None
    return base64.b64decode(bare + "=" * (-len(bare) % 4))


def _cased(
    ascii_only: Callable[[pa.Array], pa.Array],
) -> Callable[[Types, pa.Array], pa.Array | None]:
    """Upper or lower case of a column, if it is ASCII; other letters have rules of their own."""

    def columns(_types: Types, column: pa.Array) -> pa.Array | None:
        plain = pc.all(pc.string_is_ascii(column)).as_py() in (True, None)
        return ascii_only(column) if plain else None

    return columns


SPARK_TEXT = (
    PythonFunction("LOWER", str.lower, columns=_cased(pc.ascii_lower)),
    PythonFunction("REVERSE", lambda text: text[::-1], columns=lambda _, c: pc.utf8_reverse(c)),
    PythonFunction("UPPER", str.upper, columns=_cased(pc.ascii_upper)),
    PythonFunction("LEVENSHTEIN", _levenshtein),
    PythonFunction("SOUNDEX", _soundex),
    PythonFunction("SUBSTR", _substr),
    PythonFunction("SUBSTRING_INDEX", _substring_index),
    PythonFunction("UNBASE64", _base64),
)
