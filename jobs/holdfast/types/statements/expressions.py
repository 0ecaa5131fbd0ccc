"""An expression of a statement: made once by the planner, evaluated by DuckDB.

While the planner renders an expression it knows the columns and functions in it.  It records them
here, so that no other code searches the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from holdfast.types.columns.schema import Base, Column, SqlType

__all__ = [
    "Expression",
    "NamedExpression",
    "canonical",
    "combined",
    "in_duckdb",
    "in_type",
    "struct_names",
    "type_name",
]


_NO_FIELD = "no field"
_TYPE_NAMES = {Base.STRING: "VARCHAR", Base.BYTES: "BLOB", Base.TIME: "INTEGER"}


@dataclass(frozen=True)
class Expression:
    """A value for each row, as DuckDB's SQL.

    Attributes:
        sql: the text for DuckDB.
        type: the type of the value.
        columns: the columns that it reads, in the order of their first use.
        ref: the column, if the expression is just that column and needs no evaluation.
        functions: the Python functions that it calls, by their names in SQL.
        deterministic: whether each evaluation over a row gives the same value.
        released: the text in the first release, if that text differed.  Spark SQL evaluated
            expressions before the shuffle then.
        digits: of a DECIMAL that keeps the scale of what it was chosen from, the text for DuckDB
            that makes its digits, for JSON; empty: it has the scale of its type.
    """

    sql: str
    type: SqlType
    columns: tuple[str, ...] = ()
    ref: str | None = None
    functions: tuple[str, ...] = ()
    deterministic: bool = True
    released: str = ""
    digits: str = ""

    def __str__(self) -> str:
        return self.sql

    @property
    def canonical(self) -> str:
        """The text for fingerprints and facts, which a new text for DuckDB must not change."""
        return self.released or self.sql

    def mapped(
        self,
        render: Callable[[str], str],
        sql_type: SqlType | None = None,
        reads: Iterable[str] = (),
        released: Callable[[str], str] | None = None,
    ) -> Expression:
        """This expression within a larger text.

        Args:
            render: makes the larger text from this expression's text.
            sql_type: the type of the result; None: the same type.
            reads: further columns that `render` adds.
            released: makes the larger text of the first release; None: as `render` does.
        """
        sql, before = render(self.sql), (released or render)(self.canonical)
        return replace(
            self,
            sql=sql,
            type=sql_type or self.type,
            columns=tuple(dict.fromkeys((*self.columns, *reads))),
            ref=None,
            released="" if before == sql else before,
            digits="",
        )


@dataclass(frozen=True)
class NamedExpression:
    """An expression and the name of its column."""

    name: str
    expression: Expression

    @property
    def column(self) -> Column:
        """The column with this name and the expression's type."""
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
    """An expression over several others, for pull queries, which have no fingerprint."""
    return Expression(
        sql,
        sql_type,
        columns=tuple(dict.fromkeys(c for part in parts for c in part.columns)),
        functions=tuple(dict.fromkeys(f for part in parts for f in part.functions)),
        deterministic=all(part.deterministic for part in parts),
    )


def in_duckdb(name: str) -> str:
    """The name of a source's column in DuckDB, which does not tell upper from lower case.

    Most names are upper-case, and those that ingest adds are lower-case behind two underscores.
    """
    usual = name.lower() if name.startswith("__") else name.upper()
    return name if name == usual else _told_apart(name)


def struct_names(names: Sequence[str]) -> list[str]:
    """The names of a STRUCT's fields in DuckDB: those that differ only in case get longer ones.

    DuckDB has no STRUCT without a field, so an empty one has a field that is always NULL.
    """
    counts = Counter(name.upper() for name in names)
    found = [name if counts[name.upper()] == 1 else _told_apart(name) for name in names]
    return found or [_NO_FIELD]


def type_name(sql_type: SqlType) -> str:
    """A type in DuckDB's DDL."""
    if sql_type.base is Base.ARRAY and sql_type.element is not None:
        return f"{type_name(sql_type.element)}[]"
    if sql_type.base is Base.MAP and sql_type.element is not None:
        return f"MAP({type_name(sql_type.map_key)}, {type_name(sql_type.element)})"
    if sql_type.base is Base.STRUCT:
        names = struct_names([f.name for f in sql_type.fields])
        quoted = ('"' + name.replace('"', '""') + '"' for name in names)
        types = [type_name(f.type) for f in sql_type.fields] or ["BOOLEAN"]
        return f"STRUCT({', '.join(map(' '.join, zip(quoted, types, strict=True)))})"
    return _TYPE_NAMES.get(sql_type.base, str(sql_type))


def in_type(sql: str, sql_type: SqlType) -> str:
    """DuckDB's text of a value of exactly a type; the value of an error is NULL."""
    if _has_timestamp(sql_type):  # zone-less, meaning UTC; a CAST would use the session's zone
        return f"TRY({sql})"
    return f"TRY(CAST({sql} AS {type_name(sql_type)}))"


def _has_timestamp(sql_type: SqlType) -> bool:
    parts = [t for t in (sql_type.element, *(f.type for f in sql_type.fields)) if t is not None]
    return sql_type.base is Base.TIMESTAMP or any(map(_has_timestamp, parts))


def _told_apart(name: str) -> str:
    return f"{name} {name.encode().hex()}"
