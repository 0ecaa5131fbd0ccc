"""Translates a Java regular expression to RE2's syntax."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from holdfast.tasks.functions.java.characters import Characters
from holdfast.tasks.functions.java.classes import PatternError, UnsupportedPatternError

__all__ = ["Translated", "translated"]

_FLAGS = re.compile(r"\(\?([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
_NAME = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})([?+]?)")
_REFUSED = {
    "(?=": "look-ahead", "(?!": "look-ahead", "(?<=": "look-behind", "(?<!": "look-behind",
    "(?>": "an independent group",
}  # fmt: skip
_LINE_END = r"\r\n|[\n\r\x{85}\x{2028}\x{2029}]"


@dataclass(frozen=True)
class Translated:
    """A pattern for RE2.

    Attributes:
        groups: RE2's number of each of Java's groups, from the first on.
        tails: RE2's numbers of the groups that hold the line end before which a `$` matched.
        names: Java's number of each named group.
        only_newlines: whether it is only correct for text whose lines end with a newline.
    """

    text: str
    groups: tuple[int, ...]
    tails: tuple[int, ...]
    names: dict[str, int]
    only_newlines: bool


@dataclass(frozen=True)
class _Level:
    """An open group.

    `ended`: this alternative has a `$`, so that no more text may follow; `before`: an earlier
    alternative has one.
    """

    flags: str
    ended: bool = False
    before: bool = False


@dataclass
class _Made:
    """The translation so far."""

    out: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    tails: list[int] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    only_newlines: bool = False

    def next_group(self) -> int:
        """The number of RE2's next group."""
        return len(self.groups) + len(self.tails) + 1


def translated(pattern: str) -> Translated:
    """The pattern in RE2's syntax.

    Raises:
        UnsupportedPatternError: the pattern is valid in Java, but not supported by RE2.
        PatternError: the pattern is invalid in Java, too.
    """
    made = _Translation(pattern).run()
    return Translated(
        "".join(made.out), tuple(made.groups), tuple(made.tails), made.names, made.only_newlines
    )


class _Translation:
    """The translation of one pattern."""

    def __init__(self, text: str) -> None:
        self._text = Characters(text)
        self._made = _Made()
        self._levels = [_Level("")]

    def run(self) -> _Made:
        while self._text.skip(comments=self._has("x")):
            self._next()
        if len(self._levels) > 1:
            raise PatternError("a ( has no )")
        return self._made

    def _next(self) -> None:
        text = self._text
        if text.starts("("):
            self._open()
        elif text.take("|"):
            before = self._level.before or self._level.ended
            self._levels[-1] = replace(self._level, ended=False, before=before)
            self._made.out.append("|")
        elif text.starts(")"):
            self._close()
        elif text.take("\\Z") or (not self._has("m") and text.take("$")):
            self._end()
        else:
            self._atom(self._one())
            self._quantify()

    @property
    def _level(self) -> _Level:
        return self._levels[-1]

    def _has(self, flag: str) -> bool:
        return flag in self._level.flags

    # -- groups --------------------------------------------------------------------------------

    def _open(self) -> None:
        for start, what in _REFUSED.items():
            if self._text.starts(start):
                raise UnsupportedPatternError(f"it has {what}, {start}...)")
        if flags := self._text.match(_FLAGS):
            self._flags(*flags.groups())
            return
        named = self._text.match(_NAME)
        if named is None and (self._text.starts("(?") or not self._text.take("(")):
            raise PatternError("a group begins with (? and nothing that is known")
        self._atom("(")
        self._made.groups.append(self._made.next_group())
        if named is not None:
            if named.group(1) in self._made.names:
                raise PatternError(f"two groups are named {named.group(1)}")
            self._made.names[named.group(1)] = len(self._made.groups)
        self._levels.append(_Level(self._level.flags))

    def _flags(self, on: str, off: str | None, end: str) -> None:
        if "U" in on:
            raise UnsupportedPatternError("it has (?U), Unicode's classes")
        flags = "".join(sorted((set(self._level.flags) | set(on)) - set(off or "")))
        if end == ")":
            self._levels[-1] = replace(self._level, flags=flags)
        else:
            self._atom("(?:")
            self._levels.append(_Level(flags))

    def _close(self) -> None:
        if len(self._levels) == 1:
            raise PatternError("a ) has no (")
        closed = self._levels.pop()
        self._text.take(")")
        self._made.out.append(")")
        self._quantify()
        if closed.ended or closed.before:
            self._levels[-1] = replace(self._level, ended=True)

    def _atom(self, text: str) -> None:
        if self._level.ended:
            raise UnsupportedPatternError("it has $ or \\Z with more behind it")
        self._made.out.append(text)

    def _quantify(self) -> None:
        self._text.skip(comments=self._has("x"))
        found = self._text.match(_QUANTIFIER)
        if found is not None and found.group(1) == "+":
            raise UnsupportedPatternError(f"it has a possessive quantifier, {found.group()}")
        self._made.out.append(found.group() if found is not None else "")

    def _end(self) -> None:
        """The end of the text, or before a final line end; a group marks that line end."""
        if self._level.ended:
            self._made.out.append(r"\z")
            return
        line_end = r"\n" if self._has("d") else _LINE_END
        self._made.tails.append(self._made.next_group())
        self._made.out.append(rf"(?:\z|({line_end})\z)")
        self._levels[-1] = replace(self._level, ended=True)

    # -- one character, class or place ---------------------------------------------------------

    def _one(self) -> str:
        text = self._text
        if text.take("."):
            return self._any()
        if text.take("^"):
            return self._lines("(?m:^)") if self._has("m") else r"\A"
        if text.take("$"):
            return self._lines("(?m:$)")
        if text.starts("*", "+", "?", "{"):
            raise PatternError("a quantifier has nothing to repeat")
        return text.one(self._level.flags)

    def _any(self) -> str:
        if self._has("s"):
            return "(?s:.)"
        return r"[^\n]" if self._has("d") else r"[^\n\r\x{85}\x{2028}\x{2029}]"

    def _lines(self, text: str) -> str:
        self._made.only_newlines |= not self._has("d")
        return text
