"""Text → statements.  Knows the grammar, not the meaning."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError, TokenError

from holdfast.sql.dialect import KsqlDialect, MisplacedError
from holdfast.sql.later import CLAUSES, STATEMENTS
from holdfast.sql.parse_select import SelectParser
from holdfast.sql.script import Script, did_you_mean
from holdfast.sql.statements import (
    ColumnDefinition,
    CreateAs,
    CreateSource,
    Name,
    Property,
    SetProperty,
    Statement,
    UnsetProperty,
)

__all__ = ["parse"]

_NOT_A_SOURCE = ("CONNECTOR", "TYPE", "SINK")


def parse(script: Script) -> tuple[Statement, ...]:
    """The statements of a file.

    Raises:
        InvalidStatement: a syntax error, with its place.
        Unsupported: ksqlDB's syntax for something that comes later.
    """
    dialect = KsqlDialect()
    try:
        tokens = dialect.tokenize(script.text)
    except TokenError as error:
        raise _unreadable(script, error) from None
    parser = StatementParser(dialect=dialect)
    try:
        return parser.statements(tokens, script.text)
    except MisplacedError as error:
        make = script.unsupported if error.unsupported else script.invalid
        fact, _, action = error.message.partition("\n")
        raise make(error.at, fact, action=action) from None
    except ParseError as error:
        raise script.invalid(parser.position, str(error).splitlines()[0]) from None


def _unreadable(script: Script, error: SqlglotError) -> Exception:
    # The tokenizer reports only a rough place: an open quote is worth looking for.
    at = _open_quote(script.text)
    if at is None:
        return script.invalid(0, f"the text cannot be split into words: {error}")
    return script.invalid(
        at,
        f"the {script.text[at : at + 2] if script.text[at] == '/' else script.text[at]} "
        "that opens here is never closed",
        action="close it; a single quote inside a string is written twice ('')",
    )


def _open_quote(text: str) -> int | None:
    at = 0
    while at < len(text):
        if text.startswith("--", at):
            at = text.find("\n", at) % (len(text) + 1)
            continue
        closing = "*/" if text.startswith("/*", at) else text[at] if text[at] in "'\"`" else ""
        if closing:
            end = text.find(closing, at + len(closing))
            if end < 0:
                return at
            at = end + len(closing)
        else:
            at += 1
    return None


class StatementParser(SelectParser):
    """CREATE, SET and UNSET; everything else ksqlDB knows is refused by name."""

    @property
    def position(self) -> int:
        """The character offset the parser has reached."""
        return int(self._curr.start if self._index < self._tokens_size else self._prev.end + 1)

    def statements(self, tokens: list[Token], text: str) -> tuple[Statement, ...]:
        """All statements; each ends with a semicolon, the last one may go without."""
        self.reset()
        self.sql = text
        self._tokens = tokens
        self._tokens_size = len(tokens)
        self._index = -1
        self._advance()
        found: list[Statement] = []
        while True:
            while self._match(TokenType.SEMICOLON):
                pass
            if self._index >= self._tokens_size:
                return tuple(found)
            found.append(self._parse_one())
            if self._index < self._tokens_size and not self._match(TokenType.SEMICOLON):
                self._raise_unexpected()

    def _raise_unexpected(self) -> None:
        if self._match_text_seq("CREATE", advance=False):
            self.raise_error("the statement before this one does not end with a semicolon")
        self.raise_error(f"unexpected {self._found()}; the statement should end with ; here")

    def _parse_one(self) -> Statement:
        parsers: dict[str, Callable[[], Statement]] = {
            "CREATE": self._parse_create_statement,
            "SET": self._parse_set_property,
            "UNSET": self._parse_unset_property,
        }
        word = self._curr.text.upper()
        if word in parsers:
            return parsers[word]()
        if word in STATEMENTS:
            self.raise_later(STATEMENTS[word])
        hint = did_you_mean(word, [*parsers, *STATEMENTS])
        self.raise_error(f"{self._found()} does not start a statement\n{hint}")
        raise AssertionError("unreachable")

    def _parse_set_property(self) -> SetProperty:
        self._advance()
        key = self._parse_quoted("SET is written SET 'key' = 'value'")
        self._expect(TokenType.EQ, "=")
        return SetProperty(key, self._parse_quoted("SET is written SET 'key' = 'value'"))

    def _parse_unset_property(self) -> UnsetProperty:
        self._advance()
        return UnsetProperty(self._parse_quoted("UNSET is written UNSET 'key'"))

    def _parse_quoted(self, usage: str) -> str:
        token = self._curr
        if not self._match(TokenType.STRING):
            self.raise_error(f"{usage}; expected a quoted string but found {self._found()}")
        return token.text

    def _parse_create_statement(self) -> CreateSource | CreateAs:
        start = self._curr
        self._advance()
        self._match_text_seq("OR", "REPLACE")  # a file is the whole truth: nothing to replace
        read_only = self._match_text_seq("SOURCE") is True
        kind = self._parse_kind()
        if_not_exists = self._match_text_seq("IF", "NOT", "EXISTS")
        name = self.parse_name(f"the name of the {kind.lower()}")
        columns = self._parse_columns()
        properties = self._with_properties()
        if not self._match(TokenType.ALIAS):
            return CreateSource(
                kind, name, columns, properties, if_not_exists, start.start, read_only=read_only
            )
        if columns:
            self.raise_error(
                f"CREATE {kind} ... AS SELECT takes its columns from the SELECT\n"
                "remove the column list, or give it to the source's own CREATE statement"
            )
        select = self.parse_select()
        text = self.sql[start.start : self._prev.end + 1]
        return CreateAs(kind, name, properties, select, if_not_exists, start.start, text)

    def _parse_kind(self) -> str:
        word = self._curr.text.upper()
        if word in ("STREAM", "TABLE"):
            self._advance()
            return word
        if word in _NOT_A_SOURCE:
            self.raise_later(STATEMENTS[f"CREATE {word}"])
        hint = did_you_mean(word, ["STREAM", "TABLE"])
        self.raise_error(f"expected STREAM or TABLE after CREATE but found {self._found()}\n{hint}")
        raise AssertionError("unreachable")

    def _parse_columns(self) -> tuple[ColumnDefinition, ...]:
        if not self._match(TokenType.L_PAREN):
            return ()
        columns = [self._parse_column_definition()]
        while self._match(TokenType.COMMA):
            columns.append(self._parse_column_definition())
        self._expect(TokenType.R_PAREN, ", or )")
        return tuple(columns)

    def _parse_column_definition(self) -> ColumnDefinition:
        name = self.parse_name("a column name")
        sql_type = self._parse_sql_type()
        constraint = ""
        if self._match_text_seq("PRIMARY", "KEY") or self._match(TokenType.PRIMARY_KEY):
            constraint = "PRIMARY KEY"
        elif self._match_text_seq("KEY"):
            constraint = "KEY"
        elif self._curr.text.upper() in ("HEADER", "HEADERS"):
            self.raise_later(CLAUSES["HEADERS"])
        return ColumnDefinition(name, sql_type, constraint)

    def _with_properties(self) -> tuple[Property, ...]:
        if not self._match(TokenType.WITH):
            return ()
        self._expect(TokenType.L_PAREN, "(")
        properties = [self._with_property()]
        while self._match(TokenType.COMMA):
            properties.append(self._with_property())
        self._expect(TokenType.R_PAREN, ", or )")
        return tuple(properties)

    def _with_property(self) -> Property:
        token = self._curr
        if self._match(TokenType.STRING):
            key = token.text.upper()
        else:
            key = self._parse_resolved_name("a property name").upper()
        self._expect(TokenType.EQ, "=")
        return Property(key, self._parse_literal(key), token.start)

    def _parse_literal(self, key: str) -> str | int | float | bool | None:
        negative = self._match(TokenType.DASH)
        node = self._parse_primary()
        if isinstance(node, exp.Literal) and not node.is_string:
            text = f"-{node.this}" if negative else str(node.this)
            return int(text) if text.lstrip("-").isdigit() else float(text)
        if isinstance(node, exp.Literal) and not negative:
            return str(node.this)
        if isinstance(node, exp.Boolean) and not negative:
            return bool(node.this)
        if not isinstance(node, exp.Null):
            self.raise_error(f"{key} must be a literal: a quoted string, a number or a boolean")
        return None

    def parse_name(self, what: str) -> Name:
        """An identifier, resolved."""
        at = self._curr.start
        return Name(self._parse_resolved_name(what), at)
