"""Takes a CREATE ... AS SELECT apart, far enough to recompute it.

Written from the language's documentation and for the judge alone: it shares nothing with the
planner, so that a planner's mistake shows as a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp, parse_one, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

__all__ = [
    "JoinClause",
    "Parts",
    "SourceName",
    "Untranslatable",
    "WindowClause",
    "Within",
    "duration_ms",
    "resolved",
    "split",
]

_DAY_MS = 86_400_000
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
    """Lengths in ms; a tumbling window advances by its size, a session's size is its gap.

    Grace is what is left of a day after the size, and none for EMIT FINAL, where nothing else is
    written; retention is size and grace.
    """

    size_ms: int
    advance_ms: int
    kind: str = "TUMBLING"
    grace_ms: int = 0
    retention_ms: int = 0
    final_within_retention: bool = False  # not of the clause: SET 'emit.final.after.jump'

    @property
    def session(self) -> bool:
        return self.kind == "SESSION"

    @property
    def open_ms(self) -> int:
        """How long after its start (a session: its end) it takes records."""
        return self.size_ms + self.grace_ms


@dataclass(frozen=True)
class Within:
    """A right record is at most `before_ms` older and `after_ms` newer than the left one."""

    before_ms: int
    after_ms: int
    grace_ms: int | None = None


@dataclass(frozen=True)
class SourceName:
    """A source as a statement names it: its own name, and the one it has in expressions."""

    name: str
    owner: str


@dataclass(frozen=True)
class JoinClause:
    """One JOIN: INNER, LEFT, RIGHT or FULL."""

    kind: str
    right: SourceName
    on: exp.Expr
    within: Within | None


@dataclass(frozen=True)
class Parts:
    """A statement's SELECT without ksqlDB's own clauses, and those clauses' meaning.

    Attributes:
        once_within_ms: DEDUPLICATE_WITHIN; None without it.
    """

    select: exp.Select
    source: SourceName
    joins: tuple[JoinClause, ...] = ()
    window: WindowClause | None = None
    partition_by: tuple[exp.Expr, ...] = ()
    final: bool = False
    once_within_ms: int | None = None


def split(statement: str) -> Parts:
    """The parts of one `CREATE STREAM|TABLE … AS SELECT` or `INSERT INTO … SELECT`.

    Raises:
        Untranslatable: something in it is not known here.
    """
    try:
        found = HoldfastJudge().tokenize(statement)
        start = next(i for i, t in enumerate(found) if t.token_type is TokenType.SELECT)
        clauses = _Clauses(statement, found[start:])
        select = parse_one(clauses.plain, dialect=HoldfastJudge)
        once = _once_within(statement[: found[start].start])
        by = tuple(_expressions(clauses.partition_by))
    except (SqlglotError, StopIteration, IndexError) as error:
        raise Untranslatable(f"the statement cannot be parsed: {error}") from error
    if not isinstance(select, exp.Select):
        raise Untranslatable("the statement has no plain SELECT")
    _refuse(select)
    window = _window(clauses.window, final=clauses.final) if clauses.window else None
    joins = tuple(_joins(select, clauses.withins))
    select.set("joins", None)
    return Parts(select, _source(select), joins, window, by, clauses.final, once)


class _Clauses:
    """Cuts out what plain SQL does not have.

    Attributes:
        plain: the SELECT without them.
        withins: of every join in its order; None without WITHIN.
    """

    def __init__(self, statement: str, found: list[Token]) -> None:
        self._text, self._found = statement, found
        self._words = [t.text.upper() if t.text else "" for t in found]
        self.window = self.partition_by = ""
        self.withins: list[Within | None] = []
        self.final = False
        self._cuts: list[tuple[int, int]] = []
        for at, word in enumerate(self._words):
            if found[at].token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
                self._take(at, word)
        self.plain = self._left().rstrip().rstrip(";")

    def _take(self, at: int, word: str) -> None:
        following = self._words[at + 1] if at + 1 < len(self._words) else ""
        if word == "JOIN":
            self.withins.append(None)
        elif word == "WITHIN" and self.withins:
            self.withins[-1] = self._within(at)
        elif word == "WINDOW":
            close = self._closing(at)
            self.window = self._cut(at, close)
        elif word.split() == ["PARTITION", "BY"]:  # one token
            self.partition_by = self._cut(at, self._tail(at))
        elif word == "EMIT" and following in ("CHANGES", "FINAL"):
            self.final = following == "FINAL"
            self._cut(at, at + 1)

    def _within(self, at: int) -> Within:
        word = self._words
        last = self._closing(at) if word[at + 1] == "(" else at + 2
        grace = None
        if word[last + 1 : last + 3] == ["GRACE", "PERIOD"]:
            grace = self._duration(last + 3)
            end = last + 4
        else:
            end = last
        spans = [self._duration(i) for i in range(at + 1, last) if word[i].isdigit()]
        self._cut(at, end)
        return Within(spans[0], spans[-1], grace)

    def _duration(self, at: int) -> int:
        return duration_ms(f"{self._words[at]} {self._words[at + 1]}")

    def _closing(self, at: int) -> int:
        types = [t.token_type for t in self._found]
        return types.index(TokenType.R_PAREN, at)

    def _tail(self, at: int) -> int:
        """The last token before EMIT or the end."""
        rest = range(at, len(self._words))
        return next((i for i in rest if self._words[i] in ("EMIT", ";")), len(self._words)) - 1

    def _cut(self, first: int, last: int) -> str:
        start, end = self._found[first].start, self._found[last].end + 1
        self._cuts.append((start, end))
        return self._text[start:end]

    def _left(self) -> str:
        at, kept = self._found[0].start, []
        for start, end in sorted(self._cuts):
            kept.append(self._text[at:start])
            at = end
        return " ".join([*kept, self._text[at : self._found[-1].end + 1]])


def resolved(identifier: exp.Expr) -> str:
    """An identifier's name: as written in quotes, else in capitals."""
    text = str(identifier.this)
    return text if identifier.args.get("quoted") else text.upper()


def duration_ms(text: str) -> int:
    """`2 HOURS` in ms.

    Raises:
        Untranslatable: it is no such length.
    """
    found = re.fullmatch(r"\s*(\d+)\s+([A-Za-z]+)\s*", text)
    unit = found.group(2).upper().removesuffix("S") if found else ""
    if found is None or unit not in _UNITS_MS:
        raise Untranslatable(f"the length of time {text}")
    return int(found.group(1)) * _UNITS_MS[unit]


def _expressions(partition_by: str) -> list[exp.Expr]:
    if not partition_by:
        return []
    text = re.sub(r"^\s*PARTITION\s+BY\s", "SELECT ", partition_by, flags=re.IGNORECASE)
    return list(parse_one(text, dialect=HoldfastJudge).expressions)


def _once_within(before: str) -> int | None:
    found = re.search(r"DEDUPLICATE_WITHIN\s*=\s*'([^']*)'", before, re.IGNORECASE)
    return duration_ms(found.group(1)) if found else None


def _refuse(select: exp.Select) -> None:
    for clause in ("laterals", "limit", "distinct", "order", "windows", "with_", "with"):
        if select.args.get(clause):
            raise Untranslatable(f"{clause} in a SELECT")


def _source(select: exp.Select) -> SourceName:
    source = select.args.get("from_") or select.args.get("from")
    if source is None:
        raise Untranslatable("a SELECT from something that is not one stream")
    return _named(source.this)


def _named(table: exp.Expr | None) -> SourceName:
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise Untranslatable("a SELECT from something that is no stream or table")
    name = resolved(table.this)
    alias = table.args.get("alias")
    return SourceName(name, resolved(alias.this) if alias is not None else name)


def _joins(select: exp.Select, withins: list[Within | None]) -> Iterator[JoinClause]:
    nodes = select.args.get("joins") or []
    if len(nodes) != len(withins):
        raise Untranslatable("a join that is not written as one")
    for node, within in zip(nodes, withins, strict=True):
        on = node.args.get("on")
        if on is None:
            raise Untranslatable("a join without a condition")
        kind = (node.args.get("side") or node.args.get("kind") or "INNER").upper()
        if kind not in ("INNER", "LEFT", "RIGHT", "FULL"):
            raise Untranslatable(f"a {kind} join")
        yield JoinClause(kind, _named(node.this), on, within)


def _window(clause: str, *, final: bool) -> WindowClause:
    """The lengths of `WINDOW TUMBLING|HOPPING|SESSION (…)`."""
    kind = re.match(r"WINDOW\s+(?:\w+\s+)?(TUMBLING|HOPPING|SESSION)\s*\(", clause, re.IGNORECASE)
    word = kind.group(1).upper() if kind is not None else ""
    size = _length(clause, r"SESSION\s*\(" if word == "SESSION" else r"\bSIZE\s")
    if size is None:
        raise Untranslatable(f"the window {clause}")
    advance = _length(clause, r"\bADVANCE\s+BY\s") if word == "HOPPING" else size
    if advance is None:
        raise Untranslatable(f"the window {clause}")
    grace = _length(clause, r"\bGRACE\s+PERIOD\s")
    if grace is None:
        grace = 0 if final else max(_DAY_MS - size, 0)
    kept = _length(clause, r"\bRETENTION\s")
    return WindowClause(size, advance, word, grace, size + grace if kept is None else kept)


def _length(clause: str, word: str) -> int | None:
    found = re.search(rf"{word}\s*(\d+\s+[A-Z]+)", clause, re.IGNORECASE)
    return duration_ms(found.group(1)) if found is not None else None
