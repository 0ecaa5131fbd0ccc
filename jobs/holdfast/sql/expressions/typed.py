"""A typed expression, rendered for one engine."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.types.columns.schema import SqlType

__all__ = ["Constant", "Typed", "describe"]

Constant = str | int | float | bool | None


@dataclass(frozen=True)
class Typed:
    """Text in an engine's dialect, and what it evaluates to.

    Attributes:
        type: the SQL type; None is the NULL literal, which fits every type.
        sql: the text; safe to use as an operand without parentheses.
        constant: (value,) of a literal, else ().
        ref: the column this is nothing more than, if so.
        event_time: whether it is ROWTIME or a window bound, which compare with date strings.
        columns: what a name of the scope reads of the rows; of other expressions the translator
            knows.
        deterministic: whether what a name of the scope stands for is the same each time.
    """

    type: SqlType | None
    sql: str
    constant: tuple[Constant, ...] = ()
    ref: str | None = None
    event_time: bool = False
    columns: tuple[str, ...] = ()
    deterministic: bool = True


def describe(sql_type: SqlType | None) -> str:
    """A type as the user knows it."""
    return "NULL" if sql_type is None else sql_type.quoted
