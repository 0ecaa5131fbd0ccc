"""Round trips with Java: its libraries and Apicurio's serdes, a real registry, a real broker."""

from __future__ import annotations

import datetime as dt
import io
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pyarrow as pa
import pytest

from holdfast.ingest.formats import value_decoder
from holdfast.local.broker import BrokerStatus
from holdfast.local.java import find_java
from holdfast.local.registry import RegistryStatus
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.transport.reader import PartitionReader
from holdfast.transport.registry import open_registry
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import DataSchema, Registered, Schemas
from holdfast.types.statements.sources import Format
from tests.bench.systems.jars import REGISTRY_SOURCES, build, registry_jars

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Java:
    """The program in tests/bench/systems/java, and the topics and schemas that it works with."""

    brokers: str
    url: str
    classes: Path
    jars: Path

    def run(self, form: Format, topic: str, what: str, lines: Sequence[str] = ()) -> list[str]:
        command = [find_java(), "-cp", f"{self.classes}:{self.jars}/*", "RoundTrip"]
        command += [self.brokers, self.url, str(form), topic, what]
        ran = subprocess.run(
            command, check=False, capture_output=True, input="\n".join(lines).encode(), timeout=120
        )
        assert not ran.returncode, ran.stderr.decode()[-3_000:]
        return ran.stdout.decode().splitlines()

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.brokers}

    @property
    def registry(self) -> Schemas:
        return open_registry({"url": self.url})

    def register(self, topic: str, form: Format, text: str) -> Registered:
        Admin(self.client).ensure_topic(topic, 1, -1, {})
        body: dict[str, Any] = {"schema": text, "schemaType": str(form.schema_kind)}
        url = f"{self.url}/subjects/{topic}-value/versions"
        httpx.post(url, json=body, timeout=60).raise_for_status()
        found = self.registry.latest(f"{topic}-value")
        assert found is not None
        return found


@pytest.fixture(scope="module")
def java(
    kafka: BrokerStatus, registry: RegistryStatus, tmp_path_factory: pytest.TempPathFactory
) -> Java:
    classes, jars = tmp_path_factory.mktemp("classes"), registry_jars()
    build(classes, jars, *REGISTRY_SOURCES)
    return Java(kafka.bootstrap_servers, registry.url, classes, jars)


def _there_and_back(
    java: Java, form: Format, text: str, lines: Sequence[str], full_name: str = ""
) -> tuple[tuple[Column, ...], Sequence[pa.Array], list[str]]:
    """Java writes the lines and Holdfast reads them; Holdfast writes its columns and Java reads."""
    topic = f"java-{str(form).lower().replace('_', '-')}"
    registered = java.register(topic, form, text)
    java.run(form, topic, "write", lines)
    language = LANGUAGES[form]
    columns = language.columns_of(
        registered.schema, full_name, unwrapped=False, key=False, exact=False
    )
    payloads = _payloads(java, topic)
    assert {p[:5] for p in payloads} == {b"\0" + registered.id.to_bytes(4, "big")}
    found = value_decoder(form, columns, columns, schemas=java.registry).decode(payloads)
    assert not found.bad
    data = DataSchema(
        registered.subject, registered.schema, registered.id, full_name=full_name, fixed=True
    )
    ours = language.encode(columns, found.columns, data, unwrapped=False)
    back, producer = f"{topic}-back", Producer(java.client)
    java.register(back, form, text)
    for payload in ours:
        assert payload is not None
        producer.send(back, None, payload, partition=0)
    producer.flush()
    return columns, found.columns, java.run(form, back, str(len(lines)))


def _payloads(java: Java, topic: str) -> list[bytes]:
    reader = PartitionReader(java.client, topic, 0)
    chunks = list(reader.read(*reader.bounds()))
    reader.close()
    return [v for c in chunks for v in c.values if v is not None]


def _plain(value: Any) -> Any:
    """Maps as objects, names in lower case, moments without a zone, times in ms of the day.

    An empty map is an empty list.
    """
    if isinstance(value, dict):
        return {k.lower(): _plain(v) for k, v in value.items()} or []
    if isinstance(value, list):
        entries = bool(value) and all(isinstance(v, tuple) for v in value)
        return {k.lower(): _plain(v) for k, v in value} if entries else [_plain(v) for v in value]
    if isinstance(value, dt.time):
        return (value.hour * 3_600 + value.minute * 60 + value.second) * 1_000 + (
            value.microsecond // 1_000
        )
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def _rows(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> list[dict[str, Any]]:
    names = [c.name for c in columns]
    rows = zip(*(a.to_pylist() for a in arrays), strict=True)
    return [_plain(dict(zip(names, row, strict=True))) for row in rows]


# -- Avro --------------------------------------------------------------------------------------

_LINE = {
    "type": "record", "name": "Line", "fields": [
        {"name": "title", "type": "string"}, {"name": "pieces", "type": ["null", "int"]},
    ],
}  # fmt: skip
_AVRO_TYPES: dict[str, Any] = {
    "text": "string", "small": "int", "big": "long", "real": "double", "near": "float",
    "flag": "boolean", "raw": "bytes",
    "maybe": ["null", "string"], "maybe_last": ["long", "null"],
    "state": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]},
    "hash": {"type": "fixed", "name": "Hash", "size": 4},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
    "maybe_price": [
        "null", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
    ],
    "day": {"type": "int", "logicalType": "date"},
    "hour": {"type": "int", "logicalType": "time-millis"},
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "by": {"type": "map", "values": "long"},
    "tags": {"type": "array", "items": ["null", "string"]},
    "lines": {"type": "array", "items": _LINE},
    "inner": ["null", {"type": "record", "name": "Inner", "fields": [
        {"name": "deep", "type": {"type": "map", "values": {"type": "array", "items": "Line"}}},
        {"name": "state", "type": "State"},
    ]}],
}  # fmt: skip
_AVRO = {
    "type": "record", "name": "Sale", "namespace": "shop",
    "fields": [{"name": name, "type": kind} for name, kind in _AVRO_TYPES.items()],
}  # fmt: skip
_FULL = {
    "text": "ü\u0000 🦆", "small": -(2**31), "big": 2**63 - 1, "real": -0.0, "near": 0.5,
    "flag": True, "raw": b"\xff\x00", "maybe": "", "maybe_last": None, "state": "PAID",
    "hash": b"\x00\x01\xfe\xff",
    "price": Decimal("-123456789.125"), "maybe_price": Decimal("0.1"),
    "day": dt.date(1969, 12, 31), "hour": dt.time(23, 59, 59, 999_000),
    "at": dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=dt.UTC),
    "by": {"a": 1, "b": -(2**63)}, "tags": [None, "", "x"],
    "lines": [{"title": "t", "pieces": None}, {"title": "", "pieces": 7}],
    "inner": {"deep": {"k": [{"title": "d", "pieces": 1}], "none": []}, "state": "OPEN"},
}  # fmt: skip
_BARE = _FULL | {
    "text": "", "small": 0, "real": 1e300, "flag": False, "raw": b"", "maybe": None,
    "maybe_last": 0, "maybe_price": None, "by": {}, "tags": [], "lines": [], "inner": None,
    "state": "OPEN", "price": Decimal("0.000"), "day": dt.date(9999, 12, 31), "hour": dt.time(0),
    "at": dt.datetime(1960, 1, 1, tzinfo=dt.UTC),
}  # fmt: skip


def test_avro(java: Java) -> None:
    rows, schema = [_FULL, _BARE, _FULL], fastavro.parse_schema(_AVRO)
    written = io.StringIO()
    fastavro.json_writer(written, schema, rows)
    columns, arrays, back = _there_and_back(
        java, Format.AVRO, json.dumps(_AVRO), written.getvalue().splitlines()
    )
    assert {c.name.lower() for c in columns} == set(_AVRO_TYPES)
    assert _rows(columns, arrays) == [_plain(row) for row in rows]
    assert list(fastavro.json_reader(io.StringIO("\n".join(back)), schema)) == rows


# -- Protobuf ----------------------------------------------------------------------------------

_PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";
message Sale {
  message Place { string city = 1; repeated sint64 numbers = 2; }
  message Line { string title = 1; optional int32 pieces = 2; State state = 3; }
  enum State { OPEN = 0; PAID = 5; }
  string text = 1; sint32 small = 2; fixed64 big = 30; double real = 4; float near = 5;
  bool flag = 6; bytes raw = 7; optional string maybe = 8; State state = 9;
  google.protobuf.StringValue note = 10; google.protobuf.Int64Value points = 11;
  google.protobuf.Timestamp at = 12; google.type.Date day = 13; google.type.TimeOfDay hour = 14;
  map<string, int64> by = 16; map<string, Line> lines_by = 17;
  repeated Line lines = 18; repeated sfixed32 packed = 19;
  oneof means { string card = 20; int64 cash = 21; }
  Place place = 22; repeated string tags = 2000;
}
"""
_PROTO_FULL: dict[str, Any] = {
    "text": "ü 🦆", "small": -(2**31), "big": str(2**63 - 1), "real": -1.5, "near": 0.5,
    "flag": True, "raw": "/wA=", "maybe": "", "state": "PAID", "note": "", "points": "0",
    "at": "2026-01-02T03:04:05.678Z", "day": {"year": 2024, "month": 2, "day": 29},
    "hour": {"hours": 23, "minutes": 59, "seconds": 1, "nanos": 5_000_000},
    "by": {"a": "1", "b": str(-(2**63))},
    "lines_by": {"-3": {"title": "m", "pieces": 0}}, "lines": [{"title": "t", "state": "PAID"}, {}],
    "packed": [1, -1, 0], "cash": "7", "place": {"city": "Ulm", "numbers": ["-1", "2"]},
    "tags": ["", "x"],
}  # fmt: skip


def test_protobuf(java: Java) -> None:
    rows = [_PROTO_FULL, {}, {"card": "c", "place": {}, "at": "1960-01-01T00:00:00Z"}]
    columns, arrays, back = _there_and_back(
        java, Format.PROTOBUF, _PROTO, [json.dumps(r) for r in rows], "shop.Sale"
    )
    full, empty, some = _rows(columns, arrays)
    line = {"title": "", "pieces": None, "state": "OPEN"}
    assert full == {
        "text": "ü 🦆", "small": -(2**31), "big": 2**63 - 1, "real": -1.5, "near": 0.5,
        "flag": True, "raw": b"\xff\0", "maybe": "", "state": "PAID", "note": "", "points": 0,
        "at": dt.datetime.fromisoformat("2026-01-02T03:04:05.678"), "day": dt.date(2024, 2, 29),
        "hour": 86_341_005,
        "by": {"a": 1, "b": -(2**63)}, "lines_by": {"-3": line | {"title": "m", "pieces": 0}},
        "lines": [line | {"title": "t", "state": "PAID"}, line], "packed": [1, -1, 0],
        "means_0": {"card": None, "cash": 7}, "place": {"city": "Ulm", "numbers": [-1, 2]},
        "tags": ["", "x"],
    }  # fmt: skip
    null = ("maybe", "note", "points", "at", "day", "hour", "means_0", "place")
    assert {name: empty.pop(name) for name in null} == dict.fromkeys(null)
    assert empty == {
        "text": "", "small": 0, "big": 0, "real": 0, "near": 0, "flag": False, "raw": b"",
        "state": "OPEN", "by": [], "lines_by": [], "lines": [], "packed": [], "tags": [],
    }  # fmt: skip
    assert some["means_0"] == {"card": "c", "cash": None}
    assert some["place"] == {"city": "", "numbers": []}
    assert some["at"] == dt.datetime.fromisoformat("1960-01-01")
    assert [json.loads(each) for each in back] == rows


# -- JSON Schema -------------------------------------------------------------------------------

_JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["text"],
    "properties": {
        "text": {"type": "string"}, "big": {"type": "integer"}, "real": {"type": "number"},
        "small": {"type": "integer", "connect.type": "int32"}, "flag": {"type": "boolean"},
        "maybe": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "by": {
            "type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"},
        },
        "lines": {"type": "array", "items": {"type": "object", "properties": {
            "title": {"type": "string"}, "pieces": {"type": "integer"},
        }}},
        "raw": {"type": "string", "connect.type": "bytes"},
        "day": {
            "type": "integer", "title": "org.apache.kafka.connect.data.Date",
            "connect.type": "int32",
        },
        "at": {
            "type": "integer", "title": "org.apache.kafka.connect.data.Timestamp",
            "connect.type": "int64",
        },
        "price": {
            "type": "number", "title": "org.apache.kafka.connect.data.Decimal",
            "connect.type": "bytes",
            "connect.parameters": {"scale": "2", "connect.decimal.precision": "6"},
        },
    },
}  # fmt: skip
_JSON_FULL: dict[str, Any] = {
    "text": "ü 🦆", "big": 2**63 - 1, "real": -1.5, "small": -7, "flag": True, "maybe": "",
    "tags": ["", "x"], "by": {"a": 1}, "lines": [{"title": "t", "pieces": 2}], "raw": "/wA=",
    "day": -1, "at": 1_700_000_000_123, "price": 12.25,
}  # fmt: skip


def test_json_schema(java: Java) -> None:
    rows = [
        _JSON_FULL,
        {"text": ""},
        _JSON_FULL | {"maybe": None, "tags": [], "by": {}, "lines": []},
    ]
    columns, arrays, back = _there_and_back(
        java, Format.JSON_SR, json.dumps(_JSON), [json.dumps(r) for r in rows]
    )
    full, bare, some = _rows(columns, arrays)
    assert full == _JSON_FULL | {
        "raw": b"\xff\0", "day": dt.date(1969, 12, 31), "price": Decimal("12.25"),
        "at": dt.datetime.fromisoformat("2023-11-14T22:13:20.123"),
    }  # fmt: skip
    assert bare == dict.fromkeys(_JSON_FULL) | {"text": ""}
    assert (some["maybe"], some["tags"], some["by"], some["lines"]) == (None, [], [], [])
    known = [{k: v for k, v in json.loads(each).items() if v is not None} for each in back]
    assert known == [{k: v for k, v in row.items() if v is not None} for row in rows]
