"""The schemas that an EXPLAIN needs, by where its formats come from."""

from __future__ import annotations

import pytest

from holdfast.serve.http.ksql.schemas import needed_schemas
from holdfast.serve.workers.calls import statements_in
from holdfast.sql.parse.statements import CreateAs, CreateSource
from holdfast.sql.plan.topology import compile_text
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schemas import Schema, SchemaKind

_RECORD = '{"type": "record", "name": "R", "fields": [{"name": "amount", "type": "long"}]}'
_DEFAULT = "SET 'ksql.persistence.default.format.value'='avro';"
_SOURCES = """
CREATE STREAM plain (k STRING KEY, amount BIGINT) WITH (KAFKA_TOPIC='plain', VALUE_FORMAT='JSON');
CREATE STREAM coded (k STRING KEY, amount BIGINT) WITH (KAFKA_TOPIC='coded', VALUE_FORMAT='AVRO');
"""
_SELECT = "CREATE STREAM x WITH (VALUE_SCHEMA_ID=7) AS SELECT k, s.amount AS amount FROM"


@pytest.mark.parametrize(
    ("before", "statement", "needed"),
    [
        ("", "CREATE STREAM x WITH (KAFKA_TOPIC='t', VALUE_FORMAT='avro')", {1}),
        ("", "CREATE STREAM x WITH (KAFKA_TOPIC='t', FORMAT='AVRO', VALUE_SCHEMA_ID=7)", {1, 7}),
        ("", "CREATE STREAM x WITH (KAFKA_TOPIC='t')", set()),
        (_DEFAULT, "CREATE STREAM x WITH (KAFKA_TOPIC='t')", {1}),
        (_DEFAULT, "CREATE STREAM x WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON')", set()),
        (_DEFAULT, "CREATE STREAM x WITH (KAFKA_TOPIC='t', KEY_FORMAT='KAFKA')", {1}),
        (_SOURCES, f"{_SELECT} coded s", {7}),
        (_SOURCES, f"{_SELECT} plain s", set()),
        (_SOURCES, f"{_SELECT} plain s JOIN coded c WITHIN 1 HOUR ON s.k = c.k", {7}),
    ],
)
def test_the_registry_is_asked_only_where_a_format_has_one(
    before: str, statement: str, needed: set[int]
) -> None:
    registry = MemoryRegistry()
    registry.put("t-value", Schema(SchemaKind.AVRO, _RECORD), 1)
    registry.put("other-value", Schema(SchemaKind.AVRO, _RECORD.replace("amount", "x")), 7)
    ((_, parsed),) = statements_in(f"{statement};")
    assert isinstance(parsed, CreateSource | CreateAs)
    found = needed_schemas(parsed, registry, compile_text(before), frozenset(), every=True)
    assert {each.id for each in found} == needed
