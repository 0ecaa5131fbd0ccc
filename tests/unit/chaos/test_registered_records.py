"""Records with a schema's id: the engine reads what the workload wrote, and so does the judge."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest

from holdfast.chaos.load.records import InputRecord, LoadShape, RecordMaker
from holdfast.errors import Refused
from holdfast.ingest.formats import key_decoder, value_decoder
from holdfast.judge.read.registered import Translation
from holdfast.sql import compile_text
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schemas import Schema, SchemaKind, Schemas
from holdfast.types.statements.topology import Format, Source
from tests.unit.chaos.test_records import EVERY_TYPE, NESTED, NOW_MS

_EPOCH = dt.date(1970, 1, 1)
_FORMATS = (Format.AVRO, Format.JSON_SR, Format.PROTOBUF)
_EVERY = (*_FORMATS, Format.PROTOBUF_NOSR)


def _source(columns: str, options: str, schemas: Schemas) -> Source:
    text = f"CREATE STREAM s {columns} WITH (KAFKA_TOPIC='t', PARTITIONS=1, {options});"
    return compile_text(text, schemas=schemas).sources[0]


def _made(source: Source, schemas: Schemas, **shape: Any) -> list[InputRecord]:
    maker = RecordMaker(source, LoadShape(**shape), schemas)
    return [maker.make(n, 7, NOW_MS) for n in range(200)]


def _read_alike(source: Source, schemas: Schemas) -> None:
    """Every column of every record, by both."""
    records, plain = _made(source, schemas), Translation(source, schemas)
    keys = source.key_columns
    if keys:
        key = key_decoder(
            source.key_format, keys, keys, schemas=schemas, nullable=source.key_nullable
        )
        assert not key.decode([r.key for r in records]).bad
        assert not any((plain.key(r.key) or b"").startswith(b"\xff") for r in records)
    values = source.value_columns
    decoded = value_decoder(
        source.value_format, values, values, schemas=schemas, nullable=source.nullable
    ).decode([r.value for r in records])
    assert not decoded.bad
    for place, record in enumerate(records):
        found = {n.upper(): v for n, v in json.loads(plain.value(record.value) or b"").items()}
        for column, array in zip(values, decoded.columns, strict=True):
            mine, theirs = found[column.name.upper()], array[place].as_py()
            assert theirs is not None, column
            if isinstance(theirs, Decimal):
                assert Decimal(str(mine)) == theirs, column
            else:
                assert mine == _told(theirs), column


def _told(value: Any) -> Any:
    """The value that the judge shall have read, if the engine has this."""
    match value:
        case [(_, _), *_]:
            return {key: _told(each) for key, each in value}
        case list():
            return [_told(each) for each in value]
        case dict():
            return {key: _told(each) for key, each in value.items()}
        case bytes():
            return base64.b64encode(value).decode()
    return _moment(value) if isinstance(value, dt.date | dt.time) else value


def _moment(value: dt.date | dt.time) -> int:
    """Days since 1970, or milliseconds of the day or since 1970."""
    if isinstance(value, dt.time):
        value = dt.datetime.combine(_EPOCH, value, dt.UTC)
    if isinstance(value, dt.datetime):
        return round(value.timestamp() * 1_000)
    return (value - _EPOCH).days


@pytest.mark.parametrize("form", _EVERY)
def test_every_type_is_written(form: Format) -> None:
    schemas = MemoryRegistry()
    columns = f"(id BIGINT KEY, {EVERY_TYPE}, {NESTED})"
    _read_alike(_source(columns, f"FORMAT='{form}'", schemas), schemas)


_AVRO = {
    "type": "record", "name": "R", "fields": [
        {"name": "title", "type": "string"},
        {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "by", "type": {"type": "map", "values": "long"}},
        {"name": "more", "type": ["null", {"type": "array", "items": "int"}], "default": None},
    ],
}  # fmt: skip
_PROTO = """
syntax = "proto3"; package p;
import "google/protobuf/wrappers.proto";
message Other { int32 x = 1; }
message Sale {
  message Line { string title = 1; enum E { A = 0; B = 1; } E kind = 2; }
  Line line = 3; map<string, int64> by = 4; oneof means { string card = 6; int32 cash = 5; }
  google.protobuf.StringValue note = 7; optional int32 n = 8;
}
"""
_JSON = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["title"],
}


@pytest.mark.parametrize(
    ("form", "text", "more"),
    [
        (Format.AVRO, json.dumps(_AVRO), ""),
        (Format.PROTOBUF, _PROTO, ", VALUE_SCHEMA_FULL_NAME='p.Sale'"),
        (Format.JSON_SR, json.dumps(_JSON), ""),
    ],
)
def test_others_schemas_are_written_as_they_are(form: Format, text: str, more: str) -> None:
    schemas = MemoryRegistry()
    assert form.schema_kind is not None
    schemas.put("t-value", Schema(form.schema_kind, text), 9)
    options = f"VALUE_FORMAT='{form}'{more}"
    source = _source("", options, schemas)
    records, plain = _made(source, schemas), Translation(source, schemas)
    decoder = value_decoder(form, source.value_columns, source.value_columns, schemas=schemas)
    assert not decoder.decode([r.value for r in records]).bad
    assert not any((plain.value(r.value) or b"").startswith(b"\xff") for r in records)


@pytest.mark.parametrize("nullable", ["OPTIONAL", "WRAPPER"])
def test_messages_without_a_registry_are_written_as_their_nulls_are_told(nullable: str) -> None:
    options = "FORMAT='PROTOBUF_NOSR'" + "".join(
        f", {part}_PROTOBUF_NULLABLE_REPRESENTATION='{nullable}'" for part in ("KEY", "VALUE")
    )
    schemas = MemoryRegistry()
    columns = f"(id BIGINT KEY, {EVERY_TYPE}, {NESTED})"
    _read_alike(_source(columns, options, schemas), schemas)


@pytest.mark.parametrize("form", _EVERY)
def test_garbage_is_garbage_for_the_engine_and_for_the_judge(form: Format) -> None:
    schemas = MemoryRegistry()
    source = _source("(a STRING, b BIGINT)", f"VALUE_FORMAT='{form}'", schemas)
    records, plain = _made(source, schemas, garbage=0.5), Translation(source, schemas)
    decoder = value_decoder(form, source.value_columns, source.value_columns, schemas=schemas)
    bad = decoder.decode([r.value for r in records]).bad
    assert 60 < len(bad) < 140
    read = [plain.value(r.value) or b"" for r in records]
    unread = {i for i, found in enumerate(read) if found.startswith(b"\xff")}
    assert unread == set(bad)


@pytest.mark.parametrize("form", _FORMATS)
def test_making_nothing_registers_nothing(form: Format) -> None:
    schemas = MemoryRegistry()
    maker = RecordMaker(
        _source("(a STRING)", f"VALUE_FORMAT='{form}'", schemas), LoadShape(), schemas
    )
    assert schemas.latest("t-value") is None
    maker.make(0, 7, NOW_MS)
    assert schemas.latest("t-value") is not None


def test_what_no_value_can_be_made_for_is_refused() -> None:
    schemas = MemoryRegistry()
    with pytest.raises(Refused, match="without a registry"):
        RecordMaker(_source("(a STRING)", "VALUE_FORMAT='AVRO'", schemas), LoadShape())
    fixed = {"type": "fixed", "name": "F", "size": 99}
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": fixed}]})
    schemas.put("t-value", Schema(SchemaKind.AVRO, text), 9)
    with pytest.raises(Refused, match="cannot make values for the schema of t-value"):
        RecordMaker(_source("", "VALUE_FORMAT='AVRO'", schemas), LoadShape(), schemas)
