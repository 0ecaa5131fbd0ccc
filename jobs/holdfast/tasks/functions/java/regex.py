"""Java's regular expressions, evaluated by RE2 in time linear in the text.

Java and Python backtrack: with a hostile pattern and text a short match takes for ever.  RE2 does
not, but has no back-references, no look-around and no possessive quantifiers; patterns with one of
them are refused.  `java_syntax` translates the rest to RE2's syntax.
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

_PROGRAM_BYTES_MAX = 1 << 20  # size of a compiled pattern
_STEPS_MAX = 4_000_000_000  # instructions of the pattern times characters of the text
_SCANNED_MAX = 50_000_000_000  # characters, over all finds in one text; each may scan to its end
_TOO_LARGE = ("pattern too large", "invalid repetition size")
_NO_CLASS = "invalid character class range: \\"  # such as \p{Greco}


@dataclass(frozen=True)
class Found:
    """One match: the spans of the whole and of each group, (-1, -1) for an unmatched group."""

    text: str
    spans: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        """Where the match begins."""
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """Where the match ends."""
        return self.spans[0][1]

    def group(self, index: int) -> str | None:
        """A group's text, None if the group did not match."""
        start, end = self.spans[index]
        return None if start < 0 else self.text[start:end]


class JavaRegex:
    """One pattern, ready to be matched."""

    def __init__(self, pattern: str) -> None:
        """Translates and compiles the pattern.

        Raises:
            UnsupportedPatternError: the pattern is valid in Java, but not supported by RE2.
            PatternError: the pattern is invalid.
        """
        made = translated(pattern)
        self._places, self._tails = (0, *made.groups), made.tails
        self._only_newlines = made.only_newlines
        self.names = made.names
        self.groups = len(made.groups)
        self._re2 = compiled(made.text)

    def finds(self, text: str) -> Iterator[Found]:
        """All matches from left to right, like repeated calls of Java's `find`.

        Raises:
            PatternError: the text is too long for this pattern, or has line ends that the
                translated pattern does not support.
        """
        if self._re2.programsize * len(text) > _STEPS_MAX:
            raise PatternError("the text is too long for a pattern of this size")
        if self._only_newlines and any(end in text for end in LINE_ENDS):
            raise PatternError("with (?m) lines may end with a newline only")
        scanned, before = 0, (-1, -1)
        for match in self._re2.finditer(text):
            if match.span() == before:  # RE2 repeats an empty match at the start of its search
                continue
            before = match.span()
            scanned += len(text) - match.start()
            if scanned > _SCANNED_MAX:
                raise PatternError("the text has too many matches for its length")
            found = self._found(text, match)
            yield found
            if found.end < match.end():  # Java continues from the end of its own match
                yield from self._rest(found)
                return

    def _rest(self, found: Found) -> Iterator[Found]:
        """The matches after one that ends before the last line end; there are few."""
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
            end = match.start(tail)  # the line end after `$` is not part of the match
            if end >= 0:
                spans = [(min(a, end), min(b, end)) for a, b in spans]
        return Found(text, tuple(spans))


@lru_cache(maxsize=256)
def java_regex(pattern: str) -> JavaRegex:
    """The compiled pattern, cached.

    Raises:
        UnsupportedPatternError, PatternError: see `JavaRegex`.
    """
    return JavaRegex(pattern)


def compiled(pattern: str) -> re2._Regexp:
    """A pattern in RE2's own syntax.

    Raises:
        UnsupportedPatternError: the pattern is too large, or names a class unknown to RE2.
        PatternError: the pattern is invalid.
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
