"""The judge's own reading of Protobuf, beside the engine's reading of the same bytes."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory

from holdfast.ingest.formats import value_decoder
from holdfast.judge.read.decode import InputDecoder
from holdfast.judge.read.proto_files import files_of
from holdfast.judge.read.registered import Translation
from holdfast.judge.values import Untranslatable
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.transport.registry import MemoryRegistry
from holdfast.types.columns.schemas import Schema, SchemaKind
from holdfast.types.statements.sources import Format, Sink, Source

_TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";
import "confluent/type/decimal.proto";
import "other.proto";
message Key { string id = 1; }
message Sale {
  message Line { string title = 1; optional int32 pieces = 2; repeated double prices = 4; }
  enum State { OPEN = 0; PAID = 5; }
  string buyer = 1;
  optional string note = 2;
  uint64 large = 3;
  bytes raw = 4;
  float near = 5;
  State state = 6;
  google.protobuf.Timestamp at = 7;
  google.protobuf.Int64Value points = 8;
  google.type.Date day = 9;
  google.type.TimeOfDay hour = 10;
  confluent.type.Decimal price = 11 [(confluent.field_meta) = {
    params: [ { value: "9", key: "precision" }, { value: "2", key: "scale" } ]
  }];
  repeated Line lines = 12;
  map<int32, Line> by_number = 13;
  oneof means { string card = 14; int32 cash = 15; }
  other.Place place = 16;
  Sale before = 17;
}
"""
_OTHER = 'syntax = "proto2"; package other; message Place { optional int32 x = 1 [default = 7]; }'
_SCHEMA = Schema(SchemaKind.PROTOBUF, _TEXT, (("other.proto", _OTHER),))
_HEAD = b"\0\0\0\0\x07\x02\x02"  # id 7, message 1: Sale
_COLUMNS = LANGUAGES[Format.PROTOBUF].columns_of(_SCHEMA, "shop.Sale", unwrapped=False, key=False)


@pytest.fixture(scope="module")
def sale() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for each in files_of(_SCHEMA):
        pool.AddSerializedFile(each.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Sale"))


@pytest.fixture
def registry() -> MemoryRegistry:
    made = MemoryRegistry()
    made.put("t-value", _SCHEMA, 7)
    return made


def _source() -> Source:
    return Source("S", "STREAM", "t", (), _COLUMNS, Format.NONE, Format.PROTOBUF)


def _read(registry: MemoryRegistry, data: bytes) -> dict[str, Any]:
    found = Translation(_source(), registry).value(data)
    assert found is not None
    assert found[:1] != b"\xff", "it was not read"
    return {name.upper(): value for name, value in json.loads(found).items()}


def _full(sale: Any) -> Any:
    made = sale(
        buyer="b", note="", large=(1 << 64) - 1, raw=b"\xff\0", near=0.1, state=5,
        at={"seconds": -1, "nanos": 999_999_999}, points={"value": 0},
        day={"year": 2024, "month": 2, "day": 29}, hour={"hours": 23, "nanos": 5_000_000},
        price={"value": b"\xfe\xd4", "scale": 3},
        lines=[{"title": "t", "prices": [0.5]}, {"pieces": 0}], cash=0, place={},
    )  # fmt: skip
    made.by_number[-3].title = "x"
    made.before.buyer = "a"
    return made


def test_every_type_is_read_as_its_documentation_says(sale: Any, registry: MemoryRegistry) -> None:
    found = _read(registry, _HEAD + _full(sale).SerializeToString())
    assert found.pop("NEAR") == pytest.approx(0.1, rel=1e-7)
    assert found.pop("BEFORE")["buyer"] == "a"
    assert found == {
        "BUYER": "b", "NOTE": "", "LARGE": -1, "RAW": "/wA=", "STATE": "PAID", "AT": -1,
        "POINTS": 0, "DAY": 19_782, "HOUR": 82_800_005, "PRICE": "-0.30",
        "LINES": [
            {"title": "t", "pieces": None, "prices": [0.5]},
            {"title": "", "pieces": 0, "prices": []},
        ],
        "BY_NUMBER": {"-3": {"title": "x", "pieces": None, "prices": []}},
        "MEANS_0": {"cash": 0}, "PLACE": {"x": 7},
    }  # fmt: skip
    empty = _read(registry, _HEAD)
    null = ("NOTE", "AT", "POINTS", "DAY", "HOUR", "PRICE", "MEANS_0", "PLACE", "BEFORE")
    assert {name: empty.pop(name) for name in null} == dict.fromkeys(null)
    assert empty == {
        "BUYER": "", "LARGE": 0, "RAW": "", "NEAR": 0, "STATE": "OPEN", "LINES": [],
        "BY_NUMBER": {},
    }  # fmt: skip


def test_the_engine_reads_the_same_values(sale: Any, registry: MemoryRegistry) -> None:
    decoder = value_decoder(Format.PROTOBUF, _COLUMNS, _COLUMNS, schemas=registry)
    unknown = sale(buyer="u", state=4)
    messages = [_HEAD + m.SerializeToString() for m in (_full(sale), sale(), unknown)]
    found = decoder.decode(messages)
    assert not found.bad
    plain = ("BUYER", "NOTE", "LARGE", "NEAR", "STATE", "POINTS")
    for place, data in enumerate(messages):
        mine = _read(registry, data)
        for column, array in zip(_COLUMNS, found.columns, strict=True):
            theirs = array[place].as_py()
            if column.name in plain:
                assert mine[column.name] == theirs, column.name
            if column.name == "PRICE":
                assert mine["PRICE"] == (None if theirs is None else str(theirs))
    assert _read(registry, messages[2])["STATE"] == "UNKNOWN_ENUM_VALUE_State_4"


@pytest.mark.parametrize(
    "data",
    [
        b"", _HEAD[:5], _HEAD[:6], _HEAD + b"\x0a", _HEAD + b"\x0a\x05ab", _HEAD + b"\x0b" * 3,
        b"\0\0\0\0\x07\x02\x0a", b"\0\0\0\0\x07\x01", b"\0\0\0\0\x07" + b"\xff" * 12,
        b"\0\0\0\0\x08" + _HEAD[5:], b"\1" + _HEAD[1:],
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_no_json(registry: MemoryRegistry, data: bytes) -> None:
    assert Translation(_source(), registry).value(data) == b"\xff" + data
    decoder = value_decoder(Format.PROTOBUF, _COLUMNS, _COLUMNS, schemas=registry)
    assert decoder.decode([data]).bad.keys() == {0}


_GROUP = b"\xa3\x06\x0b\x09" + b"x" * 8 + b"\x0c\x0d" + b"x" * 4 + b"\x12\x01x\x18\x05\xa4\x06"
_LARGE = b"\x18\x07"


@pytest.mark.parametrize(
    ("column", "hurt"),
    [
        ("BUYER", b"\x0a\x01\xff"),
        ("NOTE", b"\x12\x02a\xff"),
        ("DAY", b"\x4a\x07\x08\xe8\x0f\x10\x02\x18\x1e"),  # the 30th of February
        ("AT", b"\x3a\x0b\x10" + b"\xff" * 9 + b"\x01"),  # nanoseconds below zero
        ("PRICE", b"\x5a\x08\x0a\x06" + b"\x7f" * 6),  # too many digits
        ("LINES", b"\x62\x03\x0a\x01\xff"),
        ("BY_NUMBER", b"\x6a\x07\x08\x01\x12\x03\x0a\x01\xff"),
        ("MEANS_0", b"\x72\x01\xff"),
        ("PLACE", b"\x82\x01\x01\x08"),  # ends within a field
    ],
)
def test_a_column_that_cannot_be_read_matters_where_it_is_needed(
    registry: MemoryRegistry, column: str, hurt: bytes
) -> None:
    """As the engine, which skips what nobody reads; an unknown group stands between the fields."""
    data = _HEAD + _GROUP + hurt + _GROUP + _LARGE
    for needed in (column, "LARGE"):
        wanted = [c for c in _COLUMNS if c.name == needed]
        decoder = value_decoder(Format.PROTOBUF, _COLUMNS, wanted, schemas=registry)
        assert bool(decoder.decode([data]).bad) == (needed == column)
    written = Translation(_source(), registry).value(data) or b""
    assert InputDecoder(_source(), ["LARGE"]).row(None, written, 1) == (1, 7)
    if column not in ("LINES", "BY_NUMBER", "MEANS_0", "PLACE"):  # types that it never reads
        mine = InputDecoder(_source(), [column])
        assert (mine.row(None, written, 1), mine.undecodable) == (None, 1)
    found = _read(registry, data)
    assert [n for n, v in found.items() if isinstance(v, dict) and "\0unreadable" in v] == [column]


def test_a_date_that_the_judge_does_not_know_stops_it_only_where_it_is_needed(
    registry: MemoryRegistry,
) -> None:
    data = _HEAD + b"\x4a\x03\x08\x90\x4e" + _LARGE  # in the year 10000
    written = Translation(_source(), registry).value(data) or b""
    assert InputDecoder(_source(), ["LARGE"]).row(None, written, 1) == (1, 7)
    with pytest.raises(Untranslatable, match="after the year 9999"):
        InputDecoder(_source(), ["DAY"]).row(None, written, 1)


def test_what_cannot_be_read_in_a_sink_is_no_row(registry: MemoryRegistry) -> None:
    sink = Sink("T", "TABLE", "t", (), _COLUMNS, Format.NONE, Format.PROTOBUF)
    for hurt in (b"\x0a\x01\xff", b"\x4a\x07\x08\xe8\x0f\x10\x02\x18\x1e"):
        assert Translation(sink, registry).value(_HEAD + hurt) == b"\xff" + _HEAD + hurt


def test_descriptors_are_read_as_text_is(sale: Any) -> None:
    files = {each.name: each for each in files_of(_SCHEMA)}
    *_, main = files.values()

    def written(file: Any) -> str:
        return base64.b64encode(file.SerializeToString()).decode()

    registry = MemoryRegistry()
    references = (("other.proto", written(files["other.proto"])),)
    registry.put("t-value", Schema(SchemaKind.PROTOBUF, written(main), references), 7)
    assert _read(registry, _HEAD + _full(sale).SerializeToString())["DAY"] == 19_782


@pytest.mark.parametrize(
    "schema",
    [
        Schema(SchemaKind.PROTOBUF, "<html>"),
        Schema(SchemaKind.PROTOBUF, 'syntax = "proto3"; import "gone.proto"; message M {}'),
        Schema(SchemaKind.PROTOBUF, "message M {}", (("../../x.proto", ""),)),
    ],
)
def test_a_schema_that_does_not_compile_is_no_verdict(schema: Schema) -> None:
    with pytest.raises(Untranslatable, match="a Protobuf schema that"):
        files_of(schema)


def test_ksqldbs_own_schemas_compile_and_a_sink_s_decimals_are_numbers() -> None:
    language = LANGUAGES[Format.PROTOBUF]
    named = {c.name: c for c in _COLUMNS if c.name in ("PRICE", "DAY", "HOUR", "AT", "LINES")}
    schema = language.schema_of(list(named.values()), "", unwrapped=False)
    assert "confluent/meta.proto" not in schema.text, "the judge adds what ksqlDB leaves out"
    registry = MemoryRegistry()
    registry.put("t-value", schema, 9)
    sink = Sink("T", "TABLE", "t", (), tuple(named.values()), Format.NONE, Format.PROTOBUF)
    place = list(named).index("PRICE") + 1
    data = b"\0\0\0\0\x09\0" + bytes([place << 3 | 2, 5, 0x0A, 1, 30, 0x18, 1])
    assert b'"PRICE":3.00' in (Translation(sink, registry).value(data) or b"")
