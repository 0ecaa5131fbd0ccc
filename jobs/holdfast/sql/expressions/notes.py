"""Records the columns and functions of an expression while it is rendered."""

from __future__ import annotations

from holdfast.sql.expressions.typed import Typed

__all__ = ["Notes"]


class Notes:
    """Notes about one expression.

    Attributes:
        columns: the columns that it reads, in the order of their first use.
        functions: the Python functions that it calls, by their names in SQL.
        deterministic: whether each evaluation gives the same value.
        changed: whether a part of it had another text in the first release.
    """

    def __init__(self) -> None:
        self.columns: dict[str, None] = {}
        self.functions: dict[str, None] = {}
        self.deterministic = True
        self.changed = False

    def named(self, typed: Typed) -> Typed:
        """Record the columns of a resolved name; returns it."""
        self.columns |= dict.fromkeys(typed.columns)
        self.deterministic &= typed.deterministic
        return typed
