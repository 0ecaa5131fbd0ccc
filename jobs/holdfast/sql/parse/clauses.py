"""The parts of statements: names, columns, properties and the clauses of a SELECT.

Every `at` is a character offset in the whole file, for error messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from holdfast.types.columns.schema import SqlType
from holdfast.types.statements.topology import JoinKind, WindowKind

__all__ = [
    "ColumnDefinition",
    "JoinClause",
    "Name",
    "Property",
    "Select",
    "SelectItem",
    "WindowClause",
    "Within",
]


@dataclass(frozen=True)
class Name:
    """A resolved identifier: upper-case unless it was quoted."""

    text: str
    at: int


@dataclass(frozen=True)
class Property:
    """One entry of a WITH clause; the key is upper-case."""

    key: str
    value: str | int | float | bool | None
    at: int


@dataclass(frozen=True)
class ColumnDefinition:
    """A declared column; `constraint` is "", "KEY", "PRIMARY KEY", "HEADERS" or "HEADER".

    `header` is the name in HEADER('name').
    """

    name: Name
    type: SqlType
    constraint: str = ""
    header: str | None = None


@dataclass(frozen=True)
class SelectItem:
    """One item of a projection.

    `expression` is None for a star; `qualifier` is then the source it is limited to, if any.
    """

    expression: exp.Expr | None
    alias: Name | None
    at: int
    qualifier: Name | None = None


@dataclass(frozen=True)
class WindowClause:
    """WINDOW …; lengths in ms, None where the statement says nothing."""

    kind: WindowKind
    size_ms: int
    advance_ms: int
    grace_ms: int | None
    retention_ms: int | None
    at: int


@dataclass(frozen=True)
class Within:
    """WITHIN of a stream-stream join, in ms; `grace_ms` None without GRACE PERIOD."""

    before_ms: int
    after_ms: int
    grace_ms: int | None
    at: int


@dataclass(frozen=True)
class JoinClause:
    """`kind` JOIN source alias [WITHIN …] ON condition."""

    kind: JoinKind
    source: Name
    alias: Name | None
    within: Within | None
    on: exp.Expr
    at: int


@dataclass(frozen=True)
class Select:
    """SELECT …, without LIMIT.  `partition_by` is None without the clause.

    `joins` follow `source` from left to right; `final` is EMIT FINAL, `changes` EMIT CHANGES.
    """

    items: tuple[SelectItem, ...]
    source: Name
    source_alias: Name | None
    window: WindowClause | None
    where: exp.Expr | None
    group_by: tuple[exp.Expr, ...]
    partition_by: tuple[exp.Expr, ...] | None
    having: exp.Expr | None
    at: int
    joins: tuple[JoinClause, ...] = ()
    final: bool = False
    changes: bool = False
