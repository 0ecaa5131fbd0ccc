"""What the parser makes of a file: one value per statement, names resolved, nothing looked up.

Every `at` is a character offset in the whole file, for error messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from holdfast.types.schema import SqlType
from holdfast.types.topology import JoinKind, WindowKind

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
    """SELECT … of a persistent query.  `partition_by` is None without the clause.

    `joins` follow `source` from left to right; `final` is EMIT FINAL.
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
class RunScript:
    """RUN SCRIPT 'path'."""

    path: str
    at: int


@dataclass(frozen=True)
class SetProperty:
    """SET 'key' = 'value'."""

    key: str
    value: str


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
    | RunScript
    | SetProperty
    | UnsetProperty
)
