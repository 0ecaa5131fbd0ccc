"""Statements that ksqlDB has and Holdfast refuses: one sentence each, and what to do instead."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.sql.parse.statements import AssertSchema, CreateType, Define, DropType, Undefine

__all__ = ["DONE_BY_PARSER", "STATEMENTS", "Later", "refused_kind"]

DONE_BY_PARSER = (CreateType, DropType, Define, Undefine)


@dataclass(frozen=True)
class Later:
    """A refusal: what is refused, and where it will come or what to use until then."""

    fact: str
    action: str


_ONLY = "a file holds statements that create, insert, drop or set something"
_QUERIES = Later(
    "pull and push queries (a SELECT without CREATE ... AS) are not part of a file",
    "a query server answers them over HTTP (`holdfast serve`); "
    "for a query that keeps running write CREATE STREAM or TABLE name AS SELECT ...",
)
_OPERATIONS = Later(
    "statements that look at or steer a running job are not part of a file",
    f"type them in `holdfast sql`, or use the command line (holdfast --help); {_ONLY}",
)
_CONNECTORS = Later(
    "connectors are Kafka Connect's business and not supported",
    "create the connector with Kafka Connect's own REST interface",
)
_SCHEMA = Later(
    "ASSERT SCHEMA asks a Schema Registry, which is not supported yet",
    "it comes later, in holdfast.ingest; remove the statement",
)

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


def refused_kind(statement: object) -> Later:
    """Why a kind of statement that parses has no plan."""
    return _SCHEMA if isinstance(statement, AssertSchema) else _OPERATIONS
