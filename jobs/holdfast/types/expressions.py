"""An expression of a statement: made once by the planner, evaluated by one engine.

The planner knows what an expression reads and calls while it renders it, and says so here, so
that nobody has to find it in the text again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from holdfast.types.schema import Column, SqlType

__all__ = ["Expression", "NamedExpression", "canonical", "combined"]


@dataclass(frozen=True)
class Expression:
    """A value for each row, in the SQL of the engine that evaluates it where it stands.

    That is Spark before the shuffle and DuckDB after the merge.

    Attributes:
        sql: the text for the engine.
        type: of the value.
        columns: the columns that it reads of the rows it is evaluated over, in their first order.
        ref: the one of them that it is, if it is nothing more: its values need no evaluation.
        functions: the Python functions that it calls, by their names in SQL.
        deterministic: whether it has the same value each time it is evaluated over a row.
        released: the text that was first released for these values, if it was another one.
    """

    sql: str
    type: SqlType
    columns: tuple[str, ...] = ()
    ref: str | None = None
    functions: tuple[str, ...] = ()
    deterministic: bool = True
    released: str = ""

    def __str__(self) -> str:
        return self.sql

    @property
    def canonical(self) -> str:
        """The text that fingerprints and facts are of: an engine's new text changes neither."""
        return self.released or self.sql

    def mapped(
        self,
        render: Callable[[str], str],
        sql_type: SqlType | None = None,
        reads: Iterable[str] = (),
    ) -> Expression:
        """This expression inside of another text.

        Args:
            render: makes that text out of this one's.
            sql_type: of the whole; None: the same.
            reads: further columns that `render` puts in.
        """
        return replace(
            self,
            sql=render(self.sql),
            type=sql_type or self.type,
            columns=tuple(dict.fromkeys((*self.columns, *reads))),
            ref=None,
            released=self.released and render(self.released),
        )


@dataclass(frozen=True)
class NamedExpression:
    """An expression and the name of the column that it makes."""

    name: str
    expression: Expression

    @property
    def column(self) -> Column:
        """The column that it makes."""
        return Column(self.name, self.expression.type)

    @property
    def sql(self) -> str:
        """See `Expression.sql`."""
        return self.expression.sql

    @property
    def ref(self) -> str | None:
        """See `Expression.ref`."""
        return self.expression.ref


def canonical(condition: Expression | None) -> str | None:
    """The text of a condition for fingerprints and facts; None without one."""
    return None if condition is None else condition.canonical


def combined(parts: Sequence[Expression], sql: str, sql_type: SqlType) -> Expression:
    """An expression whose text is made of those of others."""
    return Expression(
        sql,
        sql_type,
        columns=tuple(dict.fromkeys(c for part in parts for c in part.columns)),
        functions=tuple(dict.fromkeys(f for part in parts for f in part.functions)),
        deterministic=all(part.deterministic for part in parts),
    )
