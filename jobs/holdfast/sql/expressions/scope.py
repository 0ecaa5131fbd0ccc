"""Scope: resolves the names of an expression, in the place where it stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sqlglot import exp

from holdfast.sql.expressions.engines import DUCKDB, Engine
from holdfast.sql.expressions.typed import Typed

__all__ = ["Scope", "call_name"]


def call_name(node: exp.Expr) -> str | None:
    """The upper-case name of a function call, else None."""
    if not isinstance(node, exp.Anonymous):
        return None
    name = node.this
    return (name if isinstance(name, str) else str(name.this)).upper()


class Scope(ABC):
    """Resolves the names of an expression, in the place where it stands."""

    @abstractmethod
    def column(self, node: exp.Column, name: str, qualifier: str | None) -> Typed:
        """The column, or an error that names the nearest one."""

    @abstractmethod
    def special(self, node: exp.Expr) -> Typed | None:
        """A whole subexpression the scope knows (a grouping expression, an aggregate), or None."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where this is, for messages: "after aggregation" and the like."""

    @abstractmethod
    def function_names(self) -> Sequence[str]:
        """Further function names for "did you mean"."""

    @property
    def first_engine(self) -> Engine:
        """The engine that evaluated these expressions in the first release."""
        return DUCKDB

    def in_engine(self, engine: Engine) -> Scope:
        """The same scope, with the names as `engine` reads them."""
        return self

    def is_parameter(self, name: str) -> bool:
        """Whether `name` is a lambda's parameter here."""
        return False

    def logical(self, word: str, left: str, right: str) -> str:
        """The text of AND or OR."""
        return f"({left} {word} {right})"

    def arithmetic(self, sql: str, type_name: str) -> str:
        """The text of an arithmetic operation, whose result may be NULL."""
        return sql
