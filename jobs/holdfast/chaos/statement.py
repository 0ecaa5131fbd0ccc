"""Takes a CREATE ... AS SELECT apart, far enough to recompute it.

Written from the language's documentation and for the judge alone: it shares nothing with the
planner, so that a planner's mistake shows as a difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp, parse_one, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["Parts", "Untranslatable", "WindowClause", "split"]

_UNITS_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
}


class Untranslatable(Exception):
    """The judge does not know this statement well enough to recompute it."""


class HoldfastJudge(Dialect):
    """Plain SQL with both of ksqlDB's identifier quotes."""

    class Tokenizer(tokens.Tokenizer):
        """Strings in single quotes only."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'"]


@dataclass(frozen=True)
class WindowClause:
    """Lengths in ms; a tumbling window advances by its size."""

    size_ms: int
    advance_ms: int


@dataclass(frozen=True)
class Parts:
    """A statement's SELECT without ksqlDB's own clauses, and those clauses' meaning."""

    select: exp.Select
    window: WindowClause | None
    partition_by: bool


def split(statement: str) -> Parts:
    """The parts of one `CREATE STREAM|TABLE … AS SELECT`.

    Raises:
        Untranslatable: something in it is not known here.
    """
    try:
        found = HoldfastJudge().tokenize(statement)
        start = next(i for i, t in enumerate(found) if t.token_type is TokenType.SELECT)
        body, window_text = _without_window(found[start:], statement)
        body, partition_by = _without_tail(body)
        select = parse_one(body, dialect=HoldfastJudge)
    except (SqlglotError, StopIteration) as error:
        raise Untranslatable(f"the statement cannot be parsed: {error}") from error
    if not isinstance(select, exp.Select):
        raise Untranslatable("the statement has no plain SELECT")
    _refuse(select)
    return Parts(select, _window(window_text) if window_text else None, partition_by)


def _without_window(found: list[Token], statement: str) -> tuple[str, str]:
    """(text without the WINDOW clause, the clause's text)."""
    text = statement[found[0].start : found[-1].end + 1]
    at = next((i for i, t in enumerate(found) if t.text.upper() == "WINDOW"), None)
    if at is None:
        return text, ""
    close = next(i for i in range(at, len(found)) if found[i].token_type is TokenType.R_PAREN)
    first, last = found[at].start, found[close].end + 1
    before, after = statement[found[0].start : first], statement[last : found[-1].end + 1]
    return f"{before} {after}", statement[first:last]


def _without_tail(text: str) -> tuple[str, bool]:
    """(text without EMIT and PARTITION BY, was there a PARTITION BY)."""
    text = re.sub(r"\s+EMIT\s+(CHANGES|FINAL)\s*;?\s*$", _changes_only, text, flags=re.IGNORECASE)
    text = text.rstrip().rstrip(";")
    shorter = re.sub(r"\s+PARTITION\s+BY\s+[^']*$", "", text, flags=re.IGNORECASE)
    return shorter, shorter != text


def _changes_only(found: re.Match[str]) -> str:
    if found.group(1).upper() != "CHANGES":
        raise Untranslatable("EMIT FINAL")
    return ""


def _refuse(select: exp.Select) -> None:
    for clause in ("joins", "laterals", "limit", "distinct", "order", "windows", "with_", "with"):
        if select.args.get(clause):
            raise Untranslatable(f"{clause} in a SELECT")
    source = select.args.get("from_") or select.args.get("from")
    if source is None or not isinstance(source.this, exp.Table):
        raise Untranslatable("a SELECT from something that is not one stream")


def _window(clause: str) -> WindowClause:
    """The lengths of `WINDOW TUMBLING|HOPPING (SIZE … [, ADVANCE BY …] …)`."""
    kind = re.match(r"WINDOW\s+(?:\w+\s+)?(TUMBLING|HOPPING)\s*\(", clause, re.IGNORECASE)
    size = _length(clause, "SIZE")
    if kind is None or size is None:
        raise Untranslatable(f"the window {clause}")
    advance = _length(clause, r"ADVANCE\s+BY") if kind.group(1).upper() == "HOPPING" else size
    if advance is None:
        raise Untranslatable(f"the window {clause}")
    return WindowClause(size, advance)


def _length(clause: str, word: str) -> int | None:
    found = re.search(rf"\b{word}\s+(\d+)\s+([A-Z]+)", clause, re.IGNORECASE)
    if found is None:
        return None
    unit = found.group(2).upper().removesuffix("S")
    if unit not in _UNITS_MS:
        raise Untranslatable(f"the time unit {found.group(2)}")
    return int(found.group(1)) * _UNITS_MS[unit]
