"""DROP, ALTER, TERMINATE and ASSERT: statements about what other statements have made."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from holdfast.sql.parse.script import Script, did_you_mean
from holdfast.sql.parse.statements import (
    AlterSource,
    AssertSource,
    AssertTombstone,
    AssertTopic,
    AssertValues,
    DropSource,
    Steer,
)
from holdfast.sql.plan.catalog import Catalog
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.sources.insert import constants
from holdfast.types.columns.schema import Column
from holdfast.types.statements.topology import Expectation, Query, Source, statements

__all__ = [
    "altered",
    "check_source",
    "check_topic_there",
    "dropped",
    "expectation",
    "known_id",
    "terminated",
]


def dropped(
    script: Script, catalog: Catalog, statement: DropSource, queries: Sequence[Query]
) -> Source | None:
    """The source that DROP removes; None: there is none, and IF EXISTS was written.

    Raises:
        InvalidStatement: it does not exist, is of the other kind, or is read by a query.
    """
    name, kind = statement.name, statement.kind
    found = catalog.get(name.text)
    if found is None:
        if statement.if_exists:
            return None
        raise script.invalid(
            name.at, f"{kind.capitalize()} {name.text} does not exist.",
            action=did_you_mean(name.text, catalog.names()),
        )  # fmt: skip
    if found.kind != kind:
        raise script.invalid(
            name.at,
            f"Incompatible data source type is {found.kind}, but statement was DROP {kind}",
        )
    if statement.delete_topic and found.read_only:
        raise script.invalid(name.at, f"Cannot delete topic for read-only source: {found.name}")
    readers = [q.sink.name for q in queries if any(s.name == found.name for s in q.sources)]
    if readers:
        raise script.invalid(
            name.at,
            f"Cannot drop {found.name}. The following streams and/or tables read from this "
            f"source: [{', '.join(readers)}].",
            action="drop them first",
        )
    return found


def altered(script: Script, catalog: Catalog, statement: AlterSource) -> Source:
    """A declared stream or table with further value columns.

    Raises:
        InvalidStatement: it is not declared, made by a query, or has the column already.
    """
    name, kind = statement.name, statement.kind.lower()
    if name.text not in catalog:
        raise script.invalid(
            name.at, f"Source {name.text} does not exist.",
            action=did_you_mean(name.text, catalog.names()),
        )  # fmt: skip
    found = catalog.source(name)
    if found.kind != statement.kind:
        raise script.invalid(
            name.at,
            f"Incompatible data source type is {found.kind}, but statement was ALTER "
            f"{statement.kind}",
        )
    if found.read_only:
        raise script.invalid(
            name.at,
            f"Cannot alter {kind} '{found.name}': ALTER operations are not supported on source "
            f"{kind}s.",
        )
    if catalog.writer(name.text) is not None:
        raise script.invalid(
            name.at, "ALTER command is not supported for CREATE ... AS statements.",
            action="use CREATE OR REPLACE",
        )  # fmt: skip
    added = tuple(Column(c.name.text, c.type) for c in statement.columns)
    for place, column in enumerate(added):
        if column.name in [c.name for c in (*found.columns, *added[:place])]:
            raise script.invalid(
                name.at,
                f"Cannot add column `{column.name}` to schema. A column with the same name "
                "already exists.",
            )
    return replace(found, value_columns=found.value_columns + added)


def terminated(script: Script, statement: Steer, queries: Sequence[Query]) -> list[Query]:
    """The queries that are left after TERMINATE.

    Raises:
        InvalidStatement: there is no such query.
        Unsupported: the statement is PAUSE or RESUME.
    """
    if statement.verb != "TERMINATE":
        raise script.unsupported(
            statement.at,
            f"{statement.verb} steers a running job and is no part of a file",
            action="remove it",
        )
    if statement.query is None:
        return []
    wanted = statement.query.text.lower()
    known = statements(queries)
    gone = known_id(wanted, known)
    if gone is None:
        raise script.invalid(
            statement.at, f"Unknown queryId: {statement.query.text}",
            action=did_you_mean(wanted, known),
        )  # fmt: skip
    return [q for q in queries if q not in known[gone]]


def known_id(wanted: str, known: Container[str]) -> str | None:
    """The id among `known` that a user means: ksqlDB's own end in a number, CTAS_COUNTS_7."""
    names = (wanted.lower(), re.sub(r"_\d+$", "", wanted.lower()))
    return next((name for name in names if name in known), None)


def check_source(script: Script, catalog: Catalog, statement: AssertSource) -> None:
    """ASSERT STREAM / TABLE.

    Raises:
        InvalidStatement: it does not exist, or looks different.
    """
    found = catalog.source(statement.name)
    if found.kind != statement.kind:
        raise script.invalid(
            statement.at,
            f"Expected type does not match actual for source {found.name}. "
            f"Expected: {statement.kind}; actual: {found.kind}",
        )
    wanted = [(c.name.text, c.type, "KEY" in c.constraint) for c in statement.columns]
    keys = {c.name for c in found.key_columns}
    actual = [(c.name, c.type, c.name in keys) for c in found.columns]
    if wanted and sorted(wanted, key=str) != sorted(actual, key=str):
        raise script.invalid(
            statement.at,
            f"Expected schema does not match actual for {found.name}: it is "
            + ", ".join(f"{n} {t}{' KEY' if k else ''}" for n, t, k in actual),
        )
    given = {item.key: item for item in statement.properties}
    both = given.get("FORMAT")
    for key, what, actual_value in _asserted(found):
        item = given.get(key) or (both if key in ("KEY_FORMAT", "VALUE_FORMAT") else None)
        if item is None:
            continue
        expected = str(item.value)
        folded = key not in ("KAFKA_TOPIC", "TIMESTAMP_FORMAT")
        if expected.upper() != actual_value.upper() if folded else expected != actual_value:
            raise script.invalid(
                item.at,
                f"Expected {what} does not match actual for source {found.name}. "
                f"Expected: {expected}; actual: {actual_value or 'none'}",
            )


def _asserted(found: Source) -> Iterator[tuple[str, str, str]]:
    """The properties that ASSERT STREAM / TABLE compares: name, ksqlDB's word, value."""
    spec = found.timestamp
    yield "KAFKA_TOPIC", "kafka topic", found.topic
    yield "KEY_FORMAT", "key format", found.key_format
    yield "VALUE_FORMAT", "value format", found.value_format
    yield "WRAP_SINGLE_VALUE", "value serde features", str(found.wrap_single)
    yield "TIMESTAMP", "timestamp column", spec.column if spec else ""
    yield "TIMESTAMP_FORMAT", "timestamp format", (spec.format or "") if spec else ""


def check_topic_there(script: Script, topics: Sequence[str], statement: AssertTopic) -> None:
    """ASSERT TOPIC, as far as the statements before it tell.

    Raises:
        InvalidStatement: no statement names the topic, or one does and NOT EXISTS was written.
    """
    there = statement.topic in topics
    if there is not statement.exists:
        word = "does not exist" if statement.exists else "exists"
        raise script.invalid(
            statement.at, f"Topic {statement.topic} {word}.",
            action=did_you_mean(statement.topic, topics) if statement.exists else "",
        )  # fmt: skip


def expectation(
    context: Context, catalog: Catalog, statement: AssertValues | AssertTombstone
) -> Expectation:
    """The record that ASSERT VALUES or ASSERT NULL VALUES expects.

    Raises:
        InvalidStatement: there is no such stream or table, or the values do not fit it.
    """
    source = catalog.source(statement.target)
    values, timestamp = constants(
        context, source, statement.columns, statement.values, statement.at
    )
    line, _ = context.script.place(statement.at)
    tombstone = isinstance(statement, AssertTombstone)
    return Expectation(source, tuple(values), timestamp, tombstone, line)
