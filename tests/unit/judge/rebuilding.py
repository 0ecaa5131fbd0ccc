"""Statements recomputed from records given by hand, for the judge's tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.judge.read.arrivals import Batches
from holdfast.judge.read.observe import Record
from holdfast.judge.recompute.rebuild import (
    Facts,
    RebuiltStream,
    RebuiltTable,
    rebuilt_stream,
    rebuilt_table,
)
from holdfast.judge.recompute.relations import load
from holdfast.judge.statement.statement import split
from holdfast.judge.statement.translate import needed_columns
from holdfast.judge.statement.units import Unit, units
from holdfast.judge.values import Key
from holdfast.sql import compile_text

__all__ = ["SOURCES", "In", "facts", "facts_of", "stream_of", "sure", "table_of", "unit_of"]

SOURCES = """
CREATE STREAM a (k VARCHAR KEY, v BIGINT, l ARRAY<BIGINT>, m ARRAY<VARCHAR>)
  WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM b (k VARCHAR KEY, w BIGINT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t (k VARCHAR PRIMARY KEY, x BIGINT, f VARCHAR)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE u (k VARCHAR PRIMARY KEY, y BIGINT)
  WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE z (k VARCHAR PRIMARY KEY, q BIGINT)
  WITH (KAFKA_TOPIC='z', VALUE_FORMAT='JSON', PARTITIONS=1);
"""


@dataclass(frozen=True)
class In:
    """A record: key, value columns (None: a tombstone), time in ms."""

    key: str | None
    value: dict[str, Any] | None
    time: int = 0


def unit_of(statements: str) -> Unit:
    """The last of these statements, over `SOURCES`."""
    return list(units(compile_text(SOURCES + statements)))[-1]


def facts(
    statements: str,
    records: Mapping[str, Sequence[In]],
    *,
    broken: str = "",
    dropped_late: int | None = 0,
) -> Facts:
    """Of records by topic, all in one batch; `broken`: the markers do not tell their order."""
    given = {topic: _records(each) for topic, each in records.items()}
    return facts_of(unit_of(statements), given, Batches(broken=broken), dropped_late)


def facts_of(
    unit: Unit,
    records: Mapping[str, Sequence[Record]],
    batches: Batches,
    dropped_late: int | None,
) -> Facts:
    """Of one statement, whose every query has had these batches in one state partition."""
    queries = unit.statements[0]
    parts = split(queries[-1].statement)
    relations = []
    for name in (parts.source, *(join.right for join in parts.joins)):
        source = unit.source(name)
        needed = needed_columns(parts, source, *(join.on for join in parts.joins))
        relations.append(load(name.owner, source, needed, records[source.topic])[0])
    ids = [query.id for query in queries]
    of_query, partitions = dict.fromkeys(ids, batches), dict.fromkeys(ids, 1)
    return Facts(parts, queries, relations, of_query, partitions, dropped_late)


def table_of(statements: str, **known: Any) -> RebuiltTable:
    return rebuilt_table(facts(statements, **known))


def stream_of(statements: str, **known: Any) -> RebuiltStream:
    return rebuilt_stream(facts(statements, **known))


def sure(found: RebuiltStream) -> list[Key]:
    """The records that are there in whatever order, as they were made."""
    return [key for _, key in found.ranked]


def _records(given: Sequence[In]) -> list[Record]:
    return [
        Record(
            0,
            offset,
            None if each.key is None else each.key.encode(),
            None if each.value is None else json.dumps(each.value).encode(),
            each.time,
        )
        for offset, each in enumerate(given)
    ]
