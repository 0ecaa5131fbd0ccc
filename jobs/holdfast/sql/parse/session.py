"""The grammar of all statements, by their first word."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum, auto
from typing import NoReturn

from holdfast.sql.parse.dialect import Kind, Token
from holdfast.sql.parse.script import did_you_mean
from holdfast.sql.parse.sources import SourceParser
from holdfast.sql.parse.statements import (
    AssertSchema,
    AssertSource,
    AssertTombstone,
    AssertTopic,
    AssertValues,
    Define,
    Describe,
    Explain,
    Order,
    Print,
    RunScript,
    Select,
    SelectQuery,
    SetProperty,
    Show,
    Statement,
    Steer,
    Undefine,
    UnsetProperty,
)
from holdfast.sql.parse.unsupported import STATEMENTS
from holdfast.types.columns.schema import SqlType

__all__ = ["Place", "StatementParser"]

_SHOWN = ("PROPERTIES", "TOPICS", "STREAMS", "TABLES", "FUNCTIONS", "TYPES", "VARIABLES", "QUERIES")


class Place(Enum):
    """Where statements stand, which decides what they may be."""

    FILE = auto()
    TEST = auto()  # also ASSERT VALUES
    SESSION = auto()  # also SHOW, DESCRIBE, EXPLAIN, PRINT, RUN SCRIPT, and SELECT


class StatementParser(SourceParser):
    """One statement; `tokens` are its own, with the semicolon and an END."""

    def __init__(
        self,
        tokens: Sequence[Token],
        types: Mapping[str, SqlType],
        written: Callable[[int, int], str],
        *,
        place: Place,
    ) -> None:
        super().__init__(tokens, types)
        self.written = written
        self._place = place

    def parse_statement(self) -> Statement:
        """The statement, up to its semicolon.

        Raises:
            MisplacedError: it is none, or none that may stand in this place.
        """
        statement = self._by_word()
        if self.token.kind is not Kind.END and not self.take(";"):
            if self.at("CREATE"):
                self.fail("the statement before this one does not end with a semicolon")
            self.fail(f"unexpected {self.found()}; the statement should end with ; here")
        return statement

    def _by_word(self) -> Statement:
        parsers: dict[str, Callable[[], Statement]] = {
            "CREATE": self.parse_create,
            "INSERT": self.parse_insert,
            "DROP": self.parse_drop,
            "ALTER": self.parse_alter,
            "ASSERT": self._assert,
            "TERMINATE": self._steer,
            "PAUSE": self._steer,
            "RESUME": self._steer,
            "SET": self._set,
            "UNSET": self._unset,
            "DEFINE": self._define,
            "UNDEFINE": self._undefine,
            **(self._of_a_session() if self._place is Place.SESSION else {}),
        }
        word = self.token.upper
        if word not in parsers:
            self._unknown_statement(word, parsers)
        return parsers[word]()

    def _unknown_statement(self, word: str, parsers: Collection[str]) -> NoReturn:
        if word in STATEMENTS:
            self.refuse_later(STATEMENTS[word], self.token.start)
        hint = did_you_mean(self.token.text, [*parsers, *STATEMENTS]) if self.token.text else ""
        self.fail(f"Unknown statement '{self.token.text}': it does not start a statement\n{hint}")

    def _of_a_session(self) -> dict[str, Callable[[], Statement]]:
        return {
            "SHOW": self._show,
            "LIST": self._show,
            "DESCRIBE": self._describe,
            "EXPLAIN": self._explain,
            "PRINT": self._print,
            "RUN": self._run,
            "SELECT": self._query,
        }

    def _set(self) -> SetProperty:
        start = self.advance()
        key = self.string("SET is written SET 'key' = 'value'")
        self.expect("=")
        return SetProperty(key, self.string("SET is written SET 'key' = 'value'"), start.start)

    def _unset(self) -> UnsetProperty:
        self.advance()
        return UnsetProperty(self.string("UNSET is written UNSET 'key'"))

    def _define(self) -> Define:
        self.advance()
        name = self._variable()
        self.expect("=")
        return Define(name, self.string("DEFINE is written DEFINE name = 'value'"))

    def _undefine(self) -> Undefine:
        self.advance()
        return Undefine(self._variable())

    def _variable(self) -> str:
        # Key words may name variables, and names keep their case.
        token = self.take_kind(Kind.WORD)
        if token is None or token.text[0].isdigit():
            self.fail(f"expected the name of a variable but found {self.found()}")
        return token.text

    def _steer(self) -> Steer:
        start = self.advance()
        query = None if self.take("ALL") else self.name("the id of a query, or ALL")
        return Steer(start.upper, query, start.start)

    def _assert(self) -> Statement:
        start = self.advance()
        if self.at("STREAM") or self.at("TABLE"):
            kind = self.advance().upper
            name = self.source_name(f"the name of the {kind.lower()}")
            return AssertSource(kind, name, self._columns(), self._with(), start.start)
        if self._place is not Place.FILE and (self.at("VALUES") or self.at("NULL", "VALUES")):
            return self._assert_values(start)
        exists = not self.take("NOT", "EXISTS")
        if self.take("TOPIC"):
            topic = self._resource()
            return AssertTopic(topic, self._with(), exists, self._timeout(), start.start)
        if not self.take("SCHEMA"):
            self.fail_expected("STREAM, TABLE, TOPIC or SCHEMA after ASSERT", ["STREAM", "TABLE"])
        return self._assert_schema(exists, start)

    def _assert_values(self, start: Token) -> AssertValues | AssertTombstone:
        tombstone = self.take("NULL")
        self.expect("VALUES")
        target = self.source_name("the name of the stream or table")
        names = self._names() if self.at("(") else ()
        self.expect("KEY" if tombstone else "VALUES")
        kind = AssertTombstone if tombstone else AssertValues
        return kind(target, names, self._values(), start.start)

    def _assert_schema(self, exists: bool, start: Token) -> AssertSchema:
        subject = self._resource() if self.take("SUBJECT") else None
        number = self.whole_number("ID") if self.take("ID") else None
        if subject is None and number is None:
            self.refuse(
                "ASSERT SCHEMA statements must include a subject name or an id", start.start
            )
        return AssertSchema(subject, number, exists, self._timeout(), start.start)

    def _timeout(self) -> int | None:
        return self.parse_duration("TIMEOUT") if self.take("TIMEOUT") else None

    def _resource(self) -> str:
        """A topic's or subject's name, which keeps its case."""
        token = self.take_kind(Kind.STRING)
        if token is not None:
            return token.text
        token = self.token
        self.name("a name")
        return token.text

    def _show(self) -> Show:
        start = self.advance()
        everything = self.at("ALL", "TOPICS") and self.take("ALL")
        if self.token.upper in ("CONNECTORS", "CONNECTOR", "SOURCE", "SINK"):
            self.refuse_later(STATEMENTS["CREATE CONNECTOR"], start.start)
        if self.token.upper not in _SHOWN:
            self.fail_expected(f"what to {start.text.lower()}", _SHOWN)
        what = self.advance().upper
        return Show(what, everything, self.take("EXTENDED"), start.start)

    def _describe(self) -> Describe:
        start = self.advance()
        if self.at("CONNECTOR"):
            self.refuse_later(STATEMENTS["CREATE CONNECTOR"], start.start)
        if self.take("FUNCTION"):
            return Describe("FUNCTION", self.name("a function's name"), False, start.start)
        if self.at("STREAMS") or self.at("TABLES"):
            kind = self.advance().upper
            return Describe(kind, None, self.take("EXTENDED"), start.start)
        name = self.source_name("the name of a stream or table")
        return Describe("SOURCE", name, self.take("EXTENDED"), start.start)

    def _explain(self) -> Explain:
        start = self.advance()
        if self.at_name() and self.ends(1):
            return Explain(self.name("the id of a query"), None, start.start)
        return Explain(None, self._by_word(), start.start)

    def _print(self) -> Print:
        start = self.advance()
        topic = self._resource()
        beginning = self.take("FROM", "BEGINNING")
        with_interval = self.take("INTERVAL") or self.take("SAMPLE")
        interval = self.whole_number("INTERVAL") if with_interval else None
        limit = self.whole_number("LIMIT") if self.take("LIMIT") else None
        return Print(topic, beginning, interval, limit, start.start)

    def _query(self) -> SelectQuery:
        start = self.token.start
        select = self.parse_select()
        order = self._order(select) if self.at("ORDER", "BY") else ()
        limit = self._limit(select) if self.take("LIMIT") else None
        return SelectQuery(select, limit, start, self.written(start, self.behind), order)

    def _order(self, select: Select) -> tuple[Order, ...]:
        """ORDER BY column [ASC|DESC], …, which ksqlDB does not have."""
        if select.changes:
            self.refuse("Push queries don't support ORDER BY clauses: their rows come as they "
                        "change.", self.token.start)  # fmt: skip
        self.take("ORDER", "BY")
        return tuple(self.listed(self._ordered))

    def _ordered(self) -> Order:
        column = self.name("a column of the result")
        descending = self.take("DESC")
        if not descending:
            self.take("ASC")
        return Order(column, descending)

    def _limit(self, select: Select) -> int:
        kind = "Push" if select.changes else "Pull"
        if self.at("-"):
            self.refuse(f"{kind} queries don't support negative integers in the LIMIT clause.",
                        self.token.start)  # fmt: skip
        if self.token.kind in (Kind.DECIMAL, Kind.FLOAT):
            self.refuse("Failed to prepare statement: Value must be integer for command: LIMIT",
                        self.token.start)  # fmt: skip
        return self.whole_number("LIMIT")

    def _run(self) -> RunScript:
        start = self.advance()
        self.expect("SCRIPT")
        return RunScript(self.string("RUN SCRIPT is written RUN SCRIPT 'path'"), start.start)
