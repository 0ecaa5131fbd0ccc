"""The columns an expression reads and the functions it calls, noted while it is rendered."""

from __future__ import annotations

from holdfast.sql.expressions.typed import Typed

__all__ = ["Notes"]


class Notes:
    """Notes about one expression.

    Attributes:
        columns: the columns that it reads, in their first order.
        functions: the Python functions that it calls, by their names in SQL.
        deterministic: whether nothing in it may be another value each time.
        changed: whether something in it was rendered otherwise when it was first released.
    """

    def __init__(self) -> None:
        self.columns: dict[str, None] = {}
        self.functions: dict[str, None] = {}
        self.deterministic = True
        self.changed = False

    def named(self, typed: Typed) -> Typed:
        """Note what a name of the scope stands for, and give it back."""
        self.columns |= dict.fromkeys(typed.columns)
        self.deterministic &= typed.deterministic
        return typed
