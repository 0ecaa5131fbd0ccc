"""ksqlDB's lexical rules: text → words, each with its place.

Backquotes and double quotes name things, single quotes make strings, and the quote itself is
written twice inside.  Key words are words like any other here; the parser asks for them by name.
Reserved ones name nothing unless they are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

__all__ = ["RESERVED", "SQL_TYPE", "WORDS", "Kind", "Token", "UnclosedError", "tokenize"]

SQL_TYPE = "sql_type"  # key in the meta of exp.Cast

_RESERVED = (
    "ADVANCE ALL AND AS AT BEGINNING BETWEEN BY CASE CAST CATALOG CONNECTOR CONNECTORS CREATE "
    "DAYS DECIMAL DELETE DESCRIBE DISTINCT DROP ELSE END EXISTS EXPORT EXTENDED FALSE FROM FULL "
    "GROUP HAVING HOPPING HOURS IN INNER INSERT INTO IS JOIN LEFT LIKE LIMIT LIST LOAD "
    "MATERIALIZED MILLISECOND MILLISECONDS MINUTES MONTHS NAMESPACE NOT NULL ON OR OUTER PAUSE "
    "PRINT PROPERTIES QUERIES QUERY RENAME RESUME RETENTION RIGHT RUN SAMPLE SCRIPT SECONDS "
    "SELECT SIZE STREAM STREAMS TABLE TERMINATE THEN TO TOPIC TOPICS TRUE TUMBLING UNSET VALUES "
    "VIEW WHEN WHERE WINDOW WITH WITHIN YEARS "
)
_OTHERS = (
    "ADD ALTER ANALYZE ARRAY ASSERT CHANGES COLUMN COLUMNS DATE DAY DEFINE EMIT ESCAPE EXPLAIN "
    "FINAL FUNCTION FUNCTIONS GRACE HEADER HEADERS HOUR ID IF INTEGER INTERVAL KEY MAP MINUTE "
    "MONTH PARTITION PARTITIONS PERIOD PLUGINS PRIMARY REPLACE RESET SCHEMA SECOND SESSION SET "
    "SHOW SINK SOURCE STRING STRUCT SUBJECT SYSTEM TABLES TIME TIMEOUT TIMESTAMP TYPE TYPES "
    "UNDEFINE VARIABLES YEAR ZONE "
)
RESERVED = frozenset(_RESERVED.split())
# All that mean something somewhere, for "did you mean" and the shell's completion.
WORDS = RESERVED | frozenset(_OTHERS.split())
_SYMBOL = re.compile(r"<>|!=|<=|>=|->|=>|:=|\|\||[=<>+\-*/%()\[\],;.]")
_SPACE = re.compile(r"[\s\ufeff]+|--[^\r\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_@]*)\}")


class Kind(Enum):
    """The kinds of tokens."""

    WORD = auto()  # an unquoted name or a key word, as written
    QUOTED = auto()  # a quoted name, without its quotes
    STRING = auto()  # without its quotes
    INTEGER = auto()
    DECIMAL = auto()
    FLOAT = auto()
    VARIABLE = auto()  # ${name}; the text is the name
    SYMBOL = auto()
    UNKNOWN = auto()  # a character that starts nothing
    END = auto()


_QUOTES = {"'": Kind.STRING, '"': Kind.QUOTED, "`": Kind.QUOTED}
_NUMBERS = (
    (Kind.FLOAT, re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[Ee][+-]?[0-9]+")),
    (Kind.DECIMAL, re.compile(r"[0-9]+\.[0-9]*|\.[0-9]+")),
    (Kind.INTEGER, re.compile(r"[0-9]+")),
    (Kind.WORD, re.compile(r"[0-9][A-Za-z0-9_@]+")),
)


class UnclosedError(ValueError):
    """A quote or a comment that opens at the offset `at` has no end."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


@dataclass(frozen=True)
class Token:
    """`start` and `end` are character offsets, the end exclusive; `upper` compares key words."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The text of a word or symbol in upper case, "" of everything else."""
        return self.text.upper() if self.kind in (Kind.WORD, Kind.SYMBOL) else ""


def tokenize(text: str) -> list[Token]:
    """All tokens, an END last.

    Raises:
        UnclosedError: a quote or a comment has no end.
    """
    return [*_tokens(text), Token(Kind.END, "", len(text), len(text))]


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        space = _SPACE.match(text, at)
        if space:
            at = space.end()
            continue
        if text.startswith("/*", at):
            raise UnclosedError(at)
        token = _quoted(text, at) if text[at] in _QUOTES else _plain(text, at)
        yield token
        at = token.end


def _quoted(text: str, at: int) -> Token:
    quote = text[at]
    end = at + 1
    while True:
        end = text.find(quote, end)
        if end < 0:
            raise UnclosedError(at)
        if not text.startswith(quote, end + 1):
            inner = text[at + 1 : end].replace(quote * 2, quote)
            return Token(_QUOTES[quote], inner, at, end + 1)
        end += 2


def _plain(text: str, at: int) -> Token:
    if found := _WORD.match(text, at):
        return Token(Kind.WORD, found.group(), at, found.end())
    if found := _VARIABLE.match(text, at):
        return Token(Kind.VARIABLE, found.group(1), at, found.end())
    # The longest wins, of equal ones the first.
    numbers = [(kind, m) for kind, pattern in _NUMBERS if (m := pattern.match(text, at))]
    if numbers:
        kind, longest = max(numbers, key=lambda pair: pair[1].end())
        return Token(kind, longest.group(), at, longest.end())
    if found := _SYMBOL.match(text, at):
        return Token(Kind.SYMBOL, found.group(), at, found.end())
    return Token(Kind.UNKNOWN, text[at], at, at + 1)
