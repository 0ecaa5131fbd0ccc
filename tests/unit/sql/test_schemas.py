"""Statements over topics whose schemas a registry has."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from holdfast.errors import InvalidStatement
from holdfast.ingest.records import RecordDecoder
from holdfast.runtime.schemas import to_register, with_registered
from holdfast.sql import compile_text
from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.transport.reader import Chunk
from holdfast.transport.registry.memory import MemoryRegistry
from holdfast.types.columns.schemas import Schema, SchemaKind
from holdfast.types.ingest import IngestOptions

_VALUE = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "Item", "type": ["null", "string"], "default": None},
    ],
}


def _registry(**subjects: Any) -> MemoryRegistry:
    found = MemoryRegistry()
    for subject, written in subjects.items():
        schema = Schema(SchemaKind.AVRO, json.dumps(written))
        found.register(subject.replace("_", "-"), schema)
    return found


def test_columns_come_from_the_registry_where_a_statement_lists_none() -> None:
    schemas = _registry(t_key="string", t_value=_VALUE)
    made = compile_text("CREATE STREAM s WITH (KAFKA_TOPIC='t', FORMAT='AVRO');", schemas=schemas)
    assert [str(c) for c in made.sources[0].columns] == [
        "ROWKEY STRING", "ID BIGINT", "ITEM STRING",
    ]  # fmt: skip


def test_a_part_may_be_listed() -> None:
    schemas = _registry(t_value=_VALUE)
    text = "CREATE TABLE s (k INT PRIMARY KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');"
    made = compile_text(text, schemas=schemas)
    assert [str(c) for c in made.sources[0].columns] == ["K INTEGER", "ID BIGINT", "ITEM STRING"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("VALUE_FORMAT='AVRO'", "does not exist in the Schema Registry"),
        ("VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=9", "has no schema with id 9"),
        ("VALUE_FORMAT='JSON', VALUE_SCHEMA_ID=1", "should support schema inference"),
        ("VALUE_FORMAT='JSON'", "declares no columns"),
    ],
)
def test_what_cannot_be_inferred_is_refused(options: str, words: str) -> None:
    with pytest.raises(InvalidStatement, match=words):
        compile_text(
            f"CREATE STREAM s WITH (KAFKA_TOPIC='none', {options});", schemas=MemoryRegistry()
        )


def test_from_topic_to_topic() -> None:
    schemas = _registry(t_key="long", t_value=_VALUE)
    text = """CREATE STREAM s (k BIGINT KEY, id BIGINT, item STRING)
        WITH (KAFKA_TOPIC='t', FORMAT='AVRO');
        CREATE STREAM out WITH (VALUE_SCHEMA_FULL_NAME='shop.Sold') AS
        SELECT k, item, id + 1 AS next FROM s;"""
    topology = compile_text(text, schemas=schemas)
    assert [each.subject for each in to_register(topology)] == ["OUT-key", "OUT-value"]
    query = with_registered(topology, schemas).queries[0]
    assert [c.name for c in query.sink.key_columns] == ["K"]
    key = fastavro.parse_schema("long")
    data = [io.BytesIO(), io.BytesIO()]
    fastavro.schemaless_writer(data[0], key, 5)
    parsed = fastavro.parse_schema(_VALUE)
    fastavro.schemaless_writer(data[1], parsed, {"id": 7, "Item": "x"})
    record = [b"\0\0\0\0" + bytes([i]) + d.getvalue() for i, d in enumerate(data, 1)]
    options = IngestOptions(query.sources[0], {}, ("K", "ID", "ITEM"))
    chunk = Chunk([record[0], b"?"], [record[1], record[1]], [0, 1], [10, 11], 2)
    batch, bad = RecordDecoder(options, schemas).decode(chunk, 0)
    assert batch.select(["K", "ID", "ITEM"]).to_pylist() == [{"K": 5, "ID": 7, "ITEM": "x"}]
    assert [b.reason[:4] for b in bad] == ["key:"]
    sink = SinkRecords(query.sink)
    values = sink.values([pa.array(["x", None]), pa.array([8, 9])])
    assert sink.keys([pa.array([5, None])])[0] == b"\0\0\0\0\1\x0a"
    registered = schemas.latest("OUT-value")
    assert registered is not None
    written = json.loads(registered.schema.text)
    assert (written["namespace"], written["name"]) == ("shop", "Sold")
    found = [fastavro.schemaless_reader(io.BytesIO(v[5:]), written, None) for v in values if v]
    assert found == [{"ITEM": "x", "NEXT": 8}, {"ITEM": None, "NEXT": 9}]
