"""What ksqlDB has and Holdfast refuses for now: one sentence each, and what to do meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.sql.statements import (
    AlterSource,
    CreateType,
    Define,
    DropSource,
    DropType,
    InsertSelect,
    InsertValues,
    Undefine,
)

__all__ = ["CLAUSES", "DONE_BY_PARSER", "STATEMENTS", "Later", "refused_kind"]

DONE_BY_PARSER = (CreateType, DropType, Define, Undefine)


@dataclass(frozen=True)
class Later:
    """A refusal: what is refused, and where it will come or what to use until then."""

    fact: str
    action: str


_ONLY = "a file holds CREATE STREAM, CREATE TABLE and SET statements"
_QUERIES = Later(
    "pull and push queries (a SELECT without CREATE ... AS) are not supported yet",
    "they come later, answered over HTTP by the serve layer (holdfast.serve), not in a file; "
    "for a query that keeps running write CREATE STREAM or TABLE name AS SELECT ...",
)
_OPERATIONS = Later(
    "statements that look at or steer a running job are not part of a file",
    f"use the holdfast command line (holdfast --help); {_ONLY}",
)
_INSERT = Later(
    "INSERT is not supported yet",
    "INSERT INTO ... SELECT comes later, with queries that share a sink; "
    "records are produced to the topic by an ordinary Kafka producer",
)
_DROP = Later(
    "DROP is not supported",
    "the file is the whole truth: remove the CREATE statement from it and run the file again",
)
_ALTER = Later(
    "ALTER is not supported yet",
    "change the CREATE statement in the file; state is kept where the change allows it",
)
_CONNECTORS = Later(
    "connectors are Kafka Connect's business and not supported",
    "create the connector with Kafka Connect's own REST interface",
)
_ASSERT = Later("ASSERT is not supported yet", f"check topics before the job starts; {_ONLY}")

STATEMENTS: dict[str, Later] = {
    "SELECT": _QUERIES,
    "ALTER SYSTEM": Later(
        "ALTER SYSTEM is not part of a file",
        "properties of the job are given with SET or in its configuration",
    ),
    **dict.fromkeys(
        ("SHOW", "LIST", "DESCRIBE", "PRINT", "EXPLAIN"),
        _OPERATIONS,
    ),
    "CREATE CONNECTOR": _CONNECTORS,
}

_JOIN = Later(
    "joins are not supported yet",
    "they come later, as a processor of their own in holdfast.tasks; "
    "until then read one source per statement",
)

CLAUSES: dict[str, Later] = {
    "JOIN": _JOIN,
    "SESSION": Later(
        "SESSION windows are not supported yet",
        "they come later, as a processor of their own in holdfast.tasks; "
        "use WINDOW TUMBLING or HOPPING until then",
    ),
    "FINAL": Later(
        "EMIT FINAL is not supported yet",
        "it comes later, with suppression of windowed results in holdfast.tasks; "
        "use EMIT CHANGES, each window's last change is its final result",
    ),
    "SOURCE TABLE": Later(
        "CREATE SOURCE TABLE is not supported yet",
        "tables that are read directly come later, with table processors in holdfast.tasks",
    ),
    "HEADERS": Later(
        "columns over record headers (HEADER, HEADERS) are not supported yet",
        "they come later, in holdfast.ingest; remove the column",
    ),
    "TABLE AGGREGATION": Later(
        "aggregating a TABLE is not supported yet",
        "a table's old row must be taken back from the aggregate; this undo comes later in "
        "holdfast.tasks. Aggregate the STREAM behind the table",
    ),
    "TABLE PROJECTION": Later(
        "CREATE ... AS SELECT over a TABLE is not supported yet",
        "table-to-table processors come later in holdfast.tasks. Read the STREAM behind the table",
    ),
}


def refused_kind(statement: object) -> Later:
    """Why a kind of statement that parses has no plan yet."""
    if isinstance(statement, InsertSelect | InsertValues):
        return _INSERT
    if isinstance(statement, DropSource):
        return _DROP
    if isinstance(statement, AlterSource):
        return _ALTER
    return _ASSERT if type(statement).__name__.startswith("Assert") else _OPERATIONS
