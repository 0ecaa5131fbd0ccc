"""A statement without its literals: look-ups that differ only in their keys share a template.

Parsing and planning a statement takes a thousand times as long as looking up its row, so the plan
is cached by the statement's *template*: its text with every string and whole number removed. That
is safe only if the text outside of literals cannot hide one: no other quotes and no comments.
`split` returns None for any other text.
"""

from __future__ import annotations

import re

from holdfast.sql.parse.dialect import Kind, tokenize

__all__ = ["Literals", "Template", "literal_starts", "split"]

Template = tuple[str, ...]
Literals = list[str | int]

# One group for strings, one for whole numbers that are not part of a name or another number.
_LITERAL = re.compile(r"'((?:[^']|'')*)'|(?<![\w.@$])([0-9]{1,18})(?![\w.@])")
_HIDING = re.compile(r"[\"'`$]|--|/\*")


def split(text: str) -> tuple[Template, Literals] | None:
    """The parts between literals, with a mark for each literal's kind, and the literals' values."""
    parts = _LITERAL.split(text)
    strings, numbers = parts[1::3], parts[2::3]
    literals: Literals = [
        int(number) if string is None else string.replace("''", "'")
        for string, number in zip(strings, numbers, strict=True)
    ]
    template = (*parts[0::3], "".join("i" if s is None else "s" for s in strings))
    if any(map(_HIDING.search, parts[0::3])):
        return None
    return template, literals


def literal_starts(text: str) -> list[int] | None:
    """The start of each literal; None if `split` and the lexer disagree on them."""
    found = [(m.start(), m.end()) for m in _LITERAL.finditer(text)]
    kinds = (Kind.STRING, Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
    lexed = [(t.start, t.end) for t in tokenize(text) if t.kind in kinds]
    return [start for start, _ in found] if found == lexed else None
