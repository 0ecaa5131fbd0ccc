"""Java's regular expressions, evaluated by RE2: in time that grows with the text, whatever it is.

Java and Python backtrack: a short pattern takes for ever over a short text that was made for it.
RE2 does not, and has no references to groups, no look-around and no possessive quantifiers; a
pattern with one of them is refused.  `java_syntax` writes the rest as RE2 wants it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import re2

from holdfast.tasks.functions.java.classes import (
    LINE_ENDS,
    PatternError,
    UnsupportedPatternError,
)
from holdfast.tasks.functions.java.syntax import translated

__all__ = [
    "Found",
    "JavaRegex",
    "PatternError",
    "UnsupportedPatternError",
    "compiled",
    "java_regex",
]

_PROGRAM_BYTES_MAX = 1 << 20  # of a compiled pattern
_STEPS_MAX = 4_000_000_000  # instructions of the pattern times characters of the text
_SCANNED_MAX = 50_000_000_000  # characters, over all finds in one text; each may go to its end
_TOO_LARGE = ("pattern too large", "invalid repetition size")
_NO_CLASS = "invalid character class range: \\"  # such as \p{Greco}


@dataclass(frozen=True)
class Found:
    """One match: `spans` are of the whole and of each group, (-1, -1) if it took no part."""

    text: str
    spans: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.spans[0][1]

    def group(self, index: int) -> str | None:
        """A group's text, None if it took no part."""
        start, end = self.spans[index]
        return None if start < 0 else self.text[start:end]


class JavaRegex:
    """One pattern, ready to be matched."""

    def __init__(self, pattern: str) -> None:
        """Translates it.

        Raises:
            UnsupportedPatternError: Java knows it, RE2 does not.
            PatternError: it is wrong.
        """
        made = translated(pattern)
        self._places, self._tails = (0, *made.groups), made.tails
        self._only_newlines = made.only_newlines
        self.names = made.names
        self.groups = len(made.groups)
        self._re2 = compiled(made.text)

    def finds(self, text: str) -> Iterator[Found]:
        """All matches from left to right, as Java's `find` has them.

        Raises:
            PatternError: the text is too long for this pattern, or has ends of lines that it
                cannot tell apart.
        """
        if self._re2.programsize * len(text) > _STEPS_MAX:
            raise PatternError("the text is too long for a pattern of this size")
        if self._only_newlines and any(end in text for end in LINE_ENDS):
            raise PatternError("with (?m) lines may end with a newline only")
        scanned, before = 0, (-1, -1)
        for match in self._re2.finditer(text):
            if match.span() == before:  # RE2's own goes on from an empty match that it searched for
                continue
            before = match.span()
            scanned += len(text) - match.start()
            if scanned > _SCANNED_MAX:
                raise PatternError("the text has too many matches for its length")
            found = self._found(text, match)
            yield found
            if found.end < match.end():  # Java goes on from there
                yield from self._rest(found)
                return

    def _rest(self, found: Found) -> Iterator[Found]:
        """The matches behind one that ends before the last end of line: there are few."""
        text = found.text
        while (start := found.end + (found.start == found.end)) <= len(text):
            match = self._re2.search(text, start)
            if match is None:
                return
            found = self._found(text, match)
            yield found

    def find(self, text: str) -> Found | None:
        """The first match."""
        return next(self.finds(text), None)

    def _found(self, text: str, match: re2._Match) -> Found:
        spans = [match.span(place) for place in self._places]
        for tail in self._tails:
            end = match.start(tail)  # what `$` has looked at is no part of the match
            if end >= 0:
                spans = [(min(a, end), min(b, end)) for a, b in spans]
        return Found(text, tuple(spans))


@lru_cache(maxsize=256)
def java_regex(pattern: str) -> JavaRegex:
    """The pattern, kept for the next call.

    Raises:
        UnsupportedPatternError, PatternError: see `JavaRegex`.
    """
    return JavaRegex(pattern)


def compiled(pattern: str) -> re2._Regexp:
    """A pattern in RE2's own syntax.

    Raises:
        UnsupportedPatternError: it is too large, or names a class that RE2 has not.
        PatternError: it is wrong.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PROGRAM_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0].decode(errors="replace")
        known = text.startswith((*_TOO_LARGE, _NO_CLASS))
        raise (UnsupportedPatternError if known else PatternError)(text) from None
