"""Java's named classes of characters, as the inside of RE2's [...]."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = [
    "HORIZONTAL",
    "LINE_ENDS",
    "SPACE",
    "VERTICAL",
    "PatternError",
    "Ranges",
    "UnsupportedPatternError",
    "body",
    "complement",
    "named_class",
    "with_other_case",
]

Ranges = Sequence[tuple[int, int]]


class PatternError(ValueError):
    """The regular expression is invalid, or too expensive for this text."""


class UnsupportedPatternError(PatternError):
    """The regular expression is valid in Java, but RE2 cannot evaluate it."""


LINE_ENDS = ("\r", "\x85", "\u2028", "\u2029")  # of Java, beside \n
SPACE: Ranges = ((9, 13), (32, 32))
VERTICAL: Ranges = ((10, 13), (0x85, 0x85), (0x2028, 0x2029))
HORIZONTAL: Ranges = (
    (9, 9), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200A),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip
_LAST = 0x10FFFF
_UPPER, _LOWER, _DIGITS = (65, 90), (97, 122), (48, 57)
_POSIX: dict[str, Ranges] = {
    "Lower": (_LOWER,),
    "Upper": (_UPPER,),
    "ASCII": ((0, 127),),
    "Alpha": (_UPPER, _LOWER),
    "Digit": (_DIGITS,),
    "Alnum": (_DIGITS, _UPPER, _LOWER),
    "Punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "Graph": ((33, 126),),
    "Print": ((32, 126),),
    "Blank": ((9, 9), (32, 32)),
    "Cntrl": ((0, 31), (127, 127)),
    "XDigit": (_DIGITS, (65, 70), (97, 102)),
    "Space": SPACE,
}
_CATEGORY = re.compile(r"[CLMNPSZ][a-z]?")
_BINARY = {"LETTER": "L", "PUNCTUATION": "P", "CONTROL": "Cc", "DIGIT": "Nd"}
_CASED = ("Lu", "Ll", "Lt")


def body(ranges: Ranges) -> str:
    """The ranges as written between [ and ]."""
    return "".join(
        _hex(low) if low == high else f"{_hex(low)}-{_hex(high)}" for low, high in ranges
    )


def _hex(code: int) -> str:
    return rf"\x{{{code:X}}}"


def complement(ranges: Ranges) -> Ranges:
    """The ranges of all other characters."""
    ends = [-1, *(high for _, high in ranges)]
    starts = [*(low for low, _ in ranges), _LAST + 1]
    return [(end + 1, start - 1) for end, start in zip(ends, starts, strict=True)
            if end + 1 <= start - 1]  # fmt: skip


def with_other_case(low: int, high: int) -> Ranges:
    """A range plus its ASCII letters in the other case."""
    found = [(low, high)]
    for (first, last), shift in ((_UPPER, 32), (_LOWER, -32)):
        start, end = max(low, first), min(high, last)
        if start <= end:
            found.append((start + shift, end + shift))
    return found


def named_class(name: str, *, negated: bool, any_case: bool) -> str:
    r"""The inside of a class for \p{name}, or for \P{name}.

    Raises:
        UnsupportedPatternError: RE2 has no such class.
    """
    if name in _POSIX:
        alike = "Alpha" if any_case and name in ("Lower", "Upper") else name
        ranges = _POSIX[alike]
        return body(complement(ranges) if negated else ranges)
    plain = _unicode(name)
    if any_case and plain in _CASED:
        if negated:
            raise UnsupportedPatternError(f"\\P{{{name}}} without regard to case")
        return "".join(rf"\p{{{each}}}" for each in _CASED)
    return rf"\{'P' if negated else 'p'}{{{plain}}}"


def _unicode(name: str) -> str:
    """RE2's name of a category or a script."""
    key, equals, value = name.partition("=")
    if equals and key.lower() in ("general_category", "gc"):
        return value
    if equals and key.lower() in ("script", "sc"):
        return value.title()
    plain = name.removeprefix("Is")
    if _CATEGORY.fullmatch(plain):
        return plain
    if name.startswith("Is") and plain.upper() in _BINARY:
        return _BINARY[plain.upper()]
    if equals or not name.startswith("Is"):
        raise UnsupportedPatternError(f"\\p{{{name}}} cannot be evaluated")
    return plain.title()
