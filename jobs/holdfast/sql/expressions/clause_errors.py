"""Errors of expressions say in which clause they stand, in ksqlDB's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import InvalidStatement, Unsupported

__all__ = ["naming"]

_CONDITION = "a condition should evaluate to boolean"


@contextmanager
def naming(clause: str) -> Iterator[None]:
    """Errors inside are those of an expression of `clause`: WHERE, HAVING or SELECT.

    Raises:
        InvalidStatement: what was raised inside, with the clause's name where ksqlDB names it.
    """
    try:
        yield
    except Unsupported:
        raise
    except InvalidStatement as error:
        fact = error.fact.split(": ", 1)[1] if error.line else error.fact
        named = _named(clause, fact)
        if named == fact:
            raise
        raise InvalidStatement(
            named, cause=error.cause, action=error.action, line=error.line, column=error.column
        ) from None


def _named(clause: str, fact: str) -> str:
    if fact.startswith("invalid input syntax"):
        return f"Invalid Predicate: {fact}"
    if fact.startswith("operator does not exist"):
        return f"Invalid Predicate: {fact}\nHint: You might need to add explicit type casts."
    if clause == "SELECT":
        return f"Invalid Select: {fact}" if fact.startswith("Cast of ") else fact
    if fact.startswith(_CONDITION):
        rest = fact.removeprefix(_CONDITION)
        return f"Type error in {clause} expression: Should evaluate to boolean{rest}."
    if fact.startswith(("Cannot compare", "Comparison with NULL", "Error processing")):
        return f"Error in {clause} expression: {fact}"
    return fact
