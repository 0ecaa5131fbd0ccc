"""Text → statements.  Knows the grammar, not the meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.errors import InvalidStatement
from holdfast.sql.parse.cursor import MisplacedError
from holdfast.sql.parse.dialect import Kind, Token, UnclosedError, tokenize
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.session import Place, StatementParser
from holdfast.sql.parse.statements import (
    CreateType,
    Define,
    DropType,
    SetProperty,
    Statement,
    Undefine,
    UnsetProperty,
)
from holdfast.sql.parse.variables import Substituted
from holdfast.types.columns.schema import SqlType

__all__ = ["Definitions", "Place", "ends_statement", "parse", "statement_places"]

_SUBSTITUTION = "ksql.variable.substitution.enable"


@dataclass
class Definitions:
    """Named types and variables, which statements define for those after them."""

    types: dict[str, SqlType] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    substitution: bool = True


def parse(
    script: Script, definitions: Definitions | None = None, *, place: Place = Place.FILE
) -> tuple[Statement, ...]:
    """The statements of a file.

    CREATE and DROP TYPE, DEFINE and UNDEFINE are carried out here, for what follows them.

    Args:
        script: the text.
        definitions: what an earlier text left behind; it is changed.
        place: where the statements stand; what may not stand there is refused.

    Raises:
        InvalidStatement: a syntax error, with its place.
        Unsupported: ksqlDB's syntax for something that comes later.
    """
    known = Definitions() if definitions is None else definitions
    try:
        return tuple(_statements(script, known, place))
    except UnclosedError as error:
        opens = script.text[error.at : error.at + 1]
        raise script.invalid(
            error.at,
            f"the {'/*' if opens == '/' else opens} that opens here is never closed",
            action="close it; a single quote inside a string is written twice ('')",
        ) from None
    except MisplacedError as error:
        raise _with_place(script, error) from None
    except RecursionError:
        raise script.too_large() from None


def statement_places(text: str) -> list[tuple[int, int]]:
    """Start and end of each statement, its semicolon included; of what is not closed, all of it."""
    try:
        return [(t[0].start, t[-2].end) for t in _split(tokenize(text))]
    except UnclosedError:
        return [(0, len(text))]


def ends_statement(text: str) -> bool:
    """Whether the last statement of a text has its semicolon, so that it can be carried out."""
    try:
        tokens = tokenize(text)
    except UnclosedError:
        return False
    return len(tokens) > 1 and tokens[-2].upper == ";"


def _with_place(script: Script, error: MisplacedError) -> InvalidStatement:
    fact, _, action = error.message.partition("\n")
    if error.unsupported:
        return script.unsupported(error.at, fact, action=action)
    if error.near is None:
        return script.invalid(error.at, fact, action=action)
    line, column = script.place(error.at)
    cause = f"Syntax error at or near '{error.near}' at line {line}:{column}"
    return script.invalid(error.at, f"Syntax Error\n{fact}", cause=cause, action=action)


def _statements(script: Script, known: Definitions, place: Place) -> Iterator[Statement]:
    for tokens in _split(tokenize(script.text)):
        ready = Substituted(script.text, tokens, known.variables if known.substitution else None)
        parser = StatementParser(ready.tokens, known.types, ready.written, place=place)
        statement = parser.parse_statement()
        if not _about_substitution(statement, known):
            _define(script, statement, known)
            yield statement


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement up to its semicolon, with an END after them."""
    start = 0
    for index, token in enumerate(tokens):
        last = token.kind is Kind.END
        if (token.upper == ";" or last) and index > start:
            end = [] if last else [token]
            yield [*tokens[start:index], *end, Token(Kind.END, "", token.end, token.end)]
        if token.upper == ";":
            start = index + 1


def _about_substitution(statement: Statement, known: Definitions) -> bool:
    if isinstance(statement, SetProperty) and statement.key == _SUBSTITUTION:
        known.substitution = statement.value.strip().lower() == "true"
        return True
    if isinstance(statement, UnsetProperty) and statement.key == _SUBSTITUTION:
        known.substitution = True
        return True
    return False


def _define(script: Script, statement: Statement, known: Definitions) -> None:
    if isinstance(statement, Define):
        known.variables[statement.name.lower()] = statement.value
    elif isinstance(statement, Undefine):
        known.variables.pop(statement.name.lower(), None)
    elif isinstance(statement, CreateType):
        _create_type(script, statement, known.types)
    elif isinstance(statement, DropType):
        name = statement.name
        if name.text not in known.types and not statement.if_exists:
            raise script.unknown(name.at, "type", name.text, known.types)
        known.types.pop(name.text, None)


def _create_type(script: Script, statement: CreateType, types: dict[str, SqlType]) -> None:
    name = statement.name
    if name.text not in types:
        types[name.text] = statement.type
    elif not statement.if_not_exists:
        raise script.invalid(
            name.at,
            f"Cannot register custom type '{name.text}' since it is already registered with "
            f"type: {types[name.text]}",
            action="DROP TYPE takes it back",
        )
