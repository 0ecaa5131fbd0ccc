"""The judge's own reading of records with a schema's id."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from decimal import Decimal
from typing import Any

import fastavro
import orjson
import pytest

from holdfast.ingest.formats import value_decoder
from holdfast.judge.read.decode import InputDecoder
from holdfast.judge.read.registered import Translation, translations
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schema import BIGINT, DOUBLE, STRING, Base, Column, SqlType
from holdfast.types.columns.schemas import Schema, SchemaKind
from holdfast.types.statements.sources import Format, Sink, Source, WindowKind

_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
_ENTRY = {
    "type": "record", "name": "E", "connect.internal.type": "MapEntry",
    "fields": [{"name": "key", "type": ["null", "string"]}, {"name": "value", "type": "long"}],
}  # fmt: skip
_FIELDS = [
    {"name": "d", "type": ["null", _DECIMAL]},
    {"name": "x", "type": "double"},
    {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "b", "type": "bytes"},
    {"name": "m", "type": {"type": "array", "items": _ENTRY}},
]
_COLUMNS = (
    Column("D", SqlType(Base.DECIMAL, 20, 2)),
    Column("X", DOUBLE),
    Column("T", SqlType(Base.TIMESTAMP)),
    Column("B", SqlType(Base.BYTES)),
    Column("M", SqlType(Base.MAP, element=BIGINT)),
)


@pytest.fixture
def registry() -> MemoryRegistry:
    made = MemoryRegistry()
    made.put("v", _schema({"type": "record", "name": "R", "fields": _FIELDS}), 7)
    made.put("k", _schema("string"), 8)
    made.put("j", Schema(SchemaKind.JSON, "{}"), 9)
    return made


def _schema(written: Any) -> Schema:
    return Schema(SchemaKind.AVRO, json.dumps(written))


def _payload(number: int, written: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(written), value)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


def _value(**changes: Any) -> bytes:
    value = {
        "d": Decimal("-123456789012345678.10"),
        "x": -0.0,
        "t": dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        "b": b"\xff\0",
        "m": [{"key": "a", "value": 1}, {"key": "b", "value": -2}],
    }
    return _payload(7, {"type": "record", "name": "R", "fields": _FIELDS}, value | changes)


def _source(**changes: Any) -> Source:
    key = (Column("K", STRING),)
    formats = {"key_format": Format.AVRO, "value_format": Format.AVRO}
    return Source("S", "STREAM", "t", key, _COLUMNS, **(formats | changes))


def test_a_source_s_decimals_come_as_text_and_a_sink_s_as_numbers(registry: MemoryRegistry) -> None:
    found = Translation(_source(), registry).value(_value())
    assert json.loads(found or b"") == {
        "d": "-123456789012345678.10", "x": -0.0, "t": 1767312000000, "b": "/wA=",
        "m": {"a": 1, "b": -2},
    }  # fmt: skip
    sink = Sink("T", "TABLE", "t", (), _COLUMNS, Format.AVRO, Format.AVRO)
    assert b'"d":-123456789012345678.10' in (Translation(sink, registry).value(_value()) or b"")


def test_what_json_has_no_number_for_is_text(registry: MemoryRegistry) -> None:
    found = Translation(_source(), registry).value(_value(x=math.nan, d=None))
    assert orjson.loads(found or b"")["x"] == "NaN"


def test_keys_stand_alone_and_keep_their_windows(registry: MemoryRegistry) -> None:
    window = (5).to_bytes(8, "big")
    key = _payload(8, "string", "a")
    assert Translation(_source(), registry).key(key) == b'"a"'
    tumbling = _source(window=WindowKind.TUMBLING, window_size_ms=10)
    assert Translation(tumbling, registry).key(key + window) == b'"a"' + window
    session = _source(window=WindowKind.SESSION)
    assert Translation(session, registry).key(key + window * 2) == b'"a"' + window * 2


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"\0\0\0", b"\0\0\0\0\x07", _value()[:-1], _value() + b"\0",
        b"\0\0\0\0\x63" + _value()[5:], b"\0\0\0\0\x09{}", b"\1" + _value()[1:],
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_no_json(registry: MemoryRegistry, data: bytes) -> None:
    assert Translation(_source(), registry).value(data) == b"\xff" + data


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (Column("D", SqlType(Base.DECIMAL, 4, 2)), None),  # too many digits
        (Column("D", SqlType(Base.DECIMAL, 20, 0)), None),  # needs rounding
        (Column("N", STRING), b"\xff"),
    ],
)
def test_a_column_that_cannot_be_read_matters_where_it_is_needed(
    column: Column, text: bytes | None
) -> None:
    """As the engine, which reads only what a statement needs."""
    fields = [{"name": "n", "type": "bytes"}, {"name": "d", "type": _DECIMAL}]
    writer = {"type": "record", "name": "R", "fields": [*fields, {"name": "x", "type": "double"}]}
    data = _payload(7, writer, {"n": text or b"a", "d": Decimal("123.45"), "x": 0.5})
    fields[0] = {"name": "n", "type": "string"}
    registry = MemoryRegistry()
    schema = {"type": "record", "name": "R", "fields": [*fields, {"name": "x", "type": "double"}]}
    registry.put("v", _schema(schema), 7)
    columns = (column, Column("X", DOUBLE))
    source = Source("S", "STREAM", "t", (), columns, Format.NONE, Format.AVRO)
    for wanted in columns:
        decoder = value_decoder(Format.AVRO, columns, [wanted], schemas=registry)
        assert bool(decoder.decode([data]).bad) == (wanted is column)
    written = Translation(source, registry).value(data) or b""
    assert InputDecoder(source, ["X"]).row(None, written, 1) == (1, 0.5)
    mine = InputDecoder(source, [column.name])
    assert (mine.row(None, written, 1), mine.undecodable) == (None, 1)


def test_only_topics_with_a_registry_are_translated(registry: MemoryRegistry) -> None:
    plain = Source("P", "STREAM", "p", (), _COLUMNS)
    assert translations([_source(), plain], registry).keys() == {"t"}
    assert translations([_source(), plain], None) == {}
