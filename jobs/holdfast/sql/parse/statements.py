"""Statements as the parser makes them: one value each, names resolved, nothing looked up.

Every `at` is a character offset in the whole file, for error messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from holdfast.sql.parse.clauses import (
    ColumnDefinition,
    JoinClause,
    Name,
    Property,
    Select,
    SelectItem,
    WindowClause,
    Within,
)
from holdfast.types.columns.schema import SqlType

__all__ = [
    "AlterSource",
    "AssertSchema",
    "AssertSource",
    "AssertTombstone",
    "AssertTopic",
    "AssertValues",
    "ColumnDefinition",
    "CreateAs",
    "CreateSource",
    "CreateType",
    "Define",
    "Describe",
    "DropSource",
    "DropType",
    "Explain",
    "InsertSelect",
    "InsertValues",
    "JoinClause",
    "Name",
    "Print",
    "Property",
    "RunScript",
    "Select",
    "SelectItem",
    "SelectQuery",
    "SetProperty",
    "Show",
    "Statement",
    "Steer",
    "Undefine",
    "UnsetProperty",
    "WindowClause",
    "Within",
]


@dataclass(frozen=True)
class CreateSource:
    """CREATE [OR REPLACE] [SOURCE] STREAM / TABLE name (columns) WITH (…).

    `read_only` is SOURCE.
    """

    kind: str  # "STREAM" or "TABLE"
    name: Name
    columns: tuple[ColumnDefinition, ...]
    properties: tuple[Property, ...]
    if_not_exists: bool
    at: int
    or_replace: bool = False
    read_only: bool = False


@dataclass(frozen=True)
class CreateAs:
    """CREATE STREAM / TABLE name WITH (…) AS SELECT …; `text` is the statement as written."""

    kind: str
    name: Name
    properties: tuple[Property, ...]
    select: Select
    if_not_exists: bool
    at: int
    text: str
    or_replace: bool = False


@dataclass(frozen=True)
class InsertSelect:
    """INSERT INTO target WITH (…) SELECT …; `text` is the statement as written."""

    target: Name
    properties: tuple[Property, ...]
    select: Select
    at: int
    text: str


@dataclass(frozen=True)
class InsertValues:
    """INSERT INTO target (columns) VALUES (…); without columns they are the target's own."""

    target: Name
    columns: tuple[Name, ...]
    values: tuple[exp.Expr, ...]
    at: int


@dataclass(frozen=True)
class DropSource:
    """DROP STREAM / TABLE [IF EXISTS] name [DELETE TOPIC]."""

    kind: str
    name: Name
    if_exists: bool
    delete_topic: bool
    at: int


@dataclass(frozen=True)
class AlterSource:
    """ALTER STREAM / TABLE name ADD [COLUMN] name type, …."""

    kind: str
    name: Name
    columns: tuple[ColumnDefinition, ...]
    at: int


@dataclass(frozen=True)
class CreateType:
    """CREATE TYPE name AS type.  The parser has already put it in wherever it is used."""

    name: Name
    type: SqlType
    if_not_exists: bool
    at: int


@dataclass(frozen=True)
class DropType:
    """DROP TYPE [IF EXISTS] name; done by the parser."""

    name: Name
    if_exists: bool
    at: int


@dataclass(frozen=True)
class Define:
    """DEFINE name = 'value'; done by the parser."""

    name: str
    value: str


@dataclass(frozen=True)
class Undefine:
    """UNDEFINE name; done by the parser."""

    name: str


@dataclass(frozen=True)
class Steer:
    """TERMINATE, PAUSE or RESUME (`verb`) of a query; `query` None means ALL."""

    verb: str
    query: Name | None
    at: int


@dataclass(frozen=True)
class AssertSource:
    """ASSERT STREAM / TABLE name (columns) WITH (…): it is there, and looks like this."""

    kind: str
    name: Name
    columns: tuple[ColumnDefinition, ...]
    properties: tuple[Property, ...]
    at: int


@dataclass(frozen=True)
class AssertTopic:
    """ASSERT [NOT EXISTS] TOPIC name WITH (…) TIMEOUT …; names keep their case."""

    topic: str
    properties: tuple[Property, ...]
    exists: bool
    timeout_ms: int | None
    at: int


@dataclass(frozen=True)
class AssertSchema:
    """ASSERT [NOT EXISTS] SCHEMA SUBJECT name ID number TIMEOUT …."""

    subject: str | None
    id: int | None
    exists: bool
    timeout_ms: int | None
    at: int


@dataclass(frozen=True)
class AssertValues:
    """ASSERT VALUES target (columns) VALUES (…): the next record of its topic."""

    target: Name
    columns: tuple[Name, ...]
    values: tuple[exp.Expr, ...]
    at: int


@dataclass(frozen=True)
class AssertTombstone:
    """ASSERT NULL VALUES target (columns) KEY (…): the next record is a tombstone."""

    target: Name
    columns: tuple[Name, ...]
    values: tuple[exp.Expr, ...]
    at: int


@dataclass(frozen=True)
class Show:
    """SHOW / LIST [ALL] what [EXTENDED]; `what` is "STREAMS", "QUERIES", …."""

    what: str
    all: bool
    extended: bool
    at: int


@dataclass(frozen=True)
class Describe:
    """DESCRIBE name [EXTENDED]; `kind` is "SOURCE", "FUNCTION", "STREAMS" or "TABLES".

    `name` is None of the last two.
    """

    kind: str
    name: Name | None
    extended: bool
    at: int


@dataclass(frozen=True)
class Explain:
    """EXPLAIN of a query's id, or of a statement."""

    query: Name | None
    statement: Statement | None
    at: int


@dataclass(frozen=True)
class Print:
    """PRINT topic [FROM BEGINNING] [INTERVAL n] [LIMIT n]; topics' names keep their case."""

    topic: str
    from_beginning: bool
    interval: int | None
    limit: int | None
    at: int


@dataclass(frozen=True)
class Order:
    """An item of ORDER BY: the name of a result column, and its direction."""

    column: Name
    descending: bool = False


@dataclass(frozen=True)
class SelectQuery:
    """SELECT … [ORDER BY …] [LIMIT n]: a pull query, with EMIT CHANGES a push query.

    `text`: as written.
    """

    select: Select
    limit: int | None
    at: int
    text: str
    order: tuple[Order, ...] = ()


@dataclass(frozen=True)
class RunScript:
    """RUN SCRIPT 'path'."""

    path: str
    at: int


@dataclass(frozen=True)
class SetProperty:
    """SET 'key' = 'value'."""

    key: str
    value: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class UnsetProperty:
    """UNSET 'key': takes an earlier SET of the file back."""

    key: str


Statement = (
    CreateSource
    | CreateAs
    | InsertSelect
    | InsertValues
    | DropSource
    | AlterSource
    | CreateType
    | DropType
    | Define
    | Undefine
    | Steer
    | AssertSource
    | AssertTopic
    | AssertSchema
    | AssertValues
    | AssertTombstone
    | Show
    | Describe
    | Explain
    | Print
    | SelectQuery
    | RunScript
    | SetProperty
    | UnsetProperty
)
