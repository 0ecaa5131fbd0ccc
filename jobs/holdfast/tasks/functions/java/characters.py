"""Single characters and classes of them in a Java regular expression → RE2's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.tasks.functions.java.classes import (
    HORIZONTAL,
    SPACE,
    VERTICAL,
    PatternError,
    Ranges,
    UnsupportedPatternError,
    body,
    complement,
    named_class,
    with_other_case,
)

__all__ = ["Characters"]

_HEX = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")
_LOW = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_OCTAL = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})")
_NAMED = re.compile(r"([pP])(?:\{([^}]*)\}|([A-Z]))")
_CONTROL = re.compile(r"c([\x00-\x7f])")
_COMMENT = re.compile(r"(?:[ \t\n\x0b\f\r]|#[^\n\r\x85\u2028\u2029]*)+")
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_SETS: dict[str, Ranges] = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": SPACE,
    "h": HORIZONTAL,
    "v": VERTICAL,
}
_PLACES = {"A": r"\A", "z": r"\z", "b": r"\b"}
_LINE_BREAK = r"(?:\r\n|[\n\x0B\f\r\x{85}\x{2028}\x{2029}])"
_SURROGATES = range(0xD800, 0xE000)
_LAST = 0x10FFFF


class Characters:
    """A cursor over the text of a pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._quoted = False  # between \\Q and \\E

    def skip(self, *, comments: bool) -> bool:
        r"""Skips comments and \Q; returns whether any text is left."""
        while True:
            found = _COMMENT.match(self._text, self._at)
            if found is not None and comments and not self._quoted:
                self._at = found.end()
            elif not self._quote():
                return self._at < len(self._text)

    def _quote(self) -> bool:
        r"""Skips a \Q, or the \E that ends it."""
        mark = "\\E" if self._quoted else "\\Q"
        if not self._text.startswith(mark, self._at):
            return False
        self._at += 2
        self._quoted = not self._quoted
        return True

    def starts(self, *marks: str) -> bool:
        """Whether one of the marks is next, and not quoted."""
        return not self._quoted and self._text.startswith(marks, self._at)

    def take(self, mark: str) -> bool:
        """Skips a mark if it is next; returns whether it was."""
        found = self.starts(mark)
        self._at += len(mark) if found else 0
        return found

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skips and returns a match of `pattern`, if there is one here."""
        found = None if self._quoted else pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def one(self, flags: str) -> str:
        """The next character, class or anchor, in RE2's syntax."""
        if self.take("["):
            return self._class(flags)
        if self.take("\\"):
            here = self._text[self._at : self._at + 1]
            if here in _PLACES and not self._text.startswith("b{", self._at):
                self._at += 1
                return _PLACES[here]
            if self.take("R"):
                return _LINE_BREAK
            found = self._escaped(flags)
            return f"[{found}]" if isinstance(found, str) else _literal(found, flags)
        self._at += 1
        return _literal(ord(self._text[self._at - 1]), flags)

    # -- escapes -------------------------------------------------------------------------------

    def _escaped(self, flags: str) -> int | str:
        r"""The escape after a \: a character, or the inside of a class."""
        if found := self.match(_NAMED):
            name = found.group(2) if found.group(3) is None else found.group(3)
            negated, any_case = found.group(1) == "P", "i" in flags
            return named_class(name, negated=negated, any_case=any_case)
        code = self._coded()
        if code is not None:
            return code
        here = self._text[self._at : self._at + 1]
        self._at += 1
        if here.lower() in _SETS:
            ranges = _SETS[here.lower()]
            return body(ranges if here in _SETS else complement(ranges))
        if here in _CONTROLS:
            return _CONTROLS[here]
        return self._other(here)

    def _coded(self) -> int | None:
        """A character given by its code point; None if there is none here."""
        if found := self.match(_HEX):
            code = int(next(filter(None, found.groups())), 16)
            low = self.match(_LOW) if 0xD800 <= code < 0xDC00 else None
            if low is not None:
                return 0x10000 + ((code - 0xD800) << 10) + int(low.group(1), 16) - 0xDC00
            if code > _LAST:
                raise PatternError(f"there is no character {code:#x}")
            return code
        if found := self.match(_OCTAL):
            return int(found.group(1), 8)
        if found := self.match(_CONTROL):
            return ord(found.group(1)) ^ 64
        return None

    def _other(self, here: str) -> int:
        if here in "123456789" and here:
            raise UnsupportedPatternError(f"it has a reference to a group, \\{here}")
        if here and here in "kGXNbBR":
            raise UnsupportedPatternError(f"it has \\{here}")
        if not here or (here.isascii() and here.isalnum()):
            raise PatternError(f"\\{here} means nothing")
        return ord(here)

    # -- classes -------------------------------------------------------------------------------

    def _class(self, flags: str) -> str:
        negated = "^" if self.take("^") else ""
        inside = "".join(self._parts(flags))
        made = f"[{negated}{inside}]"
        return f"(?i:{made})" if {"i", "u"} <= set(flags) else made

    def _parts(self, flags: str) -> Iterator[str]:
        first = True
        while True:
            if not self.skip(comments="x" in flags):
                raise PatternError("a [ has no ]")
            if not first and self.take("]"):
                return
            first = False
            if self.starts("[", "&&"):
                raise UnsupportedPatternError("it has a class inside a class, or &&")
            low = self._member(flags)
            yield low if isinstance(low, str) else body(self._range(low, flags))

    def _member(self, flags: str) -> int | str:
        if self.take("\\"):
            return self._escaped(flags)
        self._at += 1
        return ord(self._text[self._at - 1])

    def _range(self, low: int, flags: str) -> Ranges:
        high: int | str = low
        if self.starts("-") and not self._text.startswith(("-]", "-[", "-&&"), self._at):
            self._at += 1
            if not self.skip(comments="x" in flags):
                raise PatternError("a [ has no ]")
            high = self._member(flags)
        if isinstance(high, str) or high < low:
            raise PatternError("a range of characters ends before it begins")
        if low in _SURROGATES or high in _SURROGATES:
            raise PatternError("half a character")
        return with_other_case(low, high) if "i" in flags else ((low, high),)


def _literal(code: int, flags: str) -> str:
    if code in _SURROGATES:
        raise PatternError("half a character")
    if "i" not in flags:
        return _plain(code)
    if "u" in flags:
        return f"(?i:{_plain(code)})"
    return f"[{body(with_other_case(code, code))}]"


def _plain(code: int) -> str:
    here = chr(code)
    return here if here.isalnum() and here.isascii() else rf"\x{{{code:X}}}"
