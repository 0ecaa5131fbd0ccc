"""Protobuf's schema language: what is read from text, and what is written."""

from __future__ import annotations

import pytest

from holdfast.tasks.registered.proto.columns import columns_of, file_of, proto_text
from holdfast.tasks.registered.proto.files import ProtoError
from holdfast.tasks.registered.proto.parse import parse_proto
from holdfast.types.schema import BIGINT, INTEGER, STRING, Base, Column, SqlType
from holdfast.types.sources import Nullable

_EVERYTHING = """
// A comment with a { brace.
syntax = "proto3"; /* and " another */
package shop.v1;
option java_package = "shop; v1";
import "google/protobuf/timestamp.proto";
import 'google/protobuf/wrappers.proto';
import "confluent/type/decimal.proto";
import "other.proto";
enum Level { option allow_alias = true; NONE = 0; LOW = -1 [deprecated = true]; NIL = 0; }
message Order {
  reserved 2, 15, 9 to 11; reserved "foo";
  int64 id = 1 [json_name = "ID"];
  optional string note = 0x10;
  repeated Line lines = 3 [packed = false];
  map<string, Line> by_name = 4;
  oneof paid { option (x) = {a: 1}; string card = 5; .shop.v1.Level level = 6; }
  google.protobuf.Timestamp at = 7;
  google.protobuf.StringValue maybe = 8;
  confluent.type.Decimal total = 12 [(confluent.field_meta) = {
    params: [{ value: "9", key: "precision" }, { value: "2", key: "scale" }]}];
  other.Thing thing = 13;
  uint32 message = 14;
  message Line { uint32 count = 1; Order.Line.Kind kind = 2; enum Kind { A = 0; } }
  extensions 100 to 199;
}
extend Order { optional int32 more = 100; }
service Shop { rpc Buy (Order) returns (stream Order) { option (http) = { get: "/x" }; } }
message Second {}
"""
_OTHER = 'syntax = "proto2"; package other; message Thing { required float weight = 1; }'


def test_what_a_file_declares_becomes_columns() -> None:
    file = parse_proto(_EVERYTHING, [("other.proto", _OTHER)])
    assert file.top == ("shop.v1.Order", "shop.v1.Second")
    assert [str(c) for c in columns_of(file, file.named(""))] == [
        "PAID_0 STRUCT<CARD STRING, LEVEL STRING>",
        "ID BIGINT",
        "NOTE STRING",
        "LINES ARRAY<STRUCT<COUNT BIGINT, KIND STRING>>",
        "BY_NAME MAP<STRING, STRUCT<COUNT BIGINT, KIND STRING>>",
        "AT TIMESTAMP",
        "MAYBE STRING",
        "TOTAL DECIMAL(9, 2)",
        "THING STRUCT<WEIGHT DOUBLE>",
        "MESSAGE BIGINT",
    ]
    assert file.enums["shop.v1.Level"] == {0: "NONE", -1: "LOW"}


def test_messages_are_found_by_their_places_and_back() -> None:
    file = parse_proto(_EVERYTHING, [("other.proto", _OTHER)])
    assert file.at((0,)).name == "shop.v1.Order"
    assert file.at((0, 0)).name == "shop.v1.Order.Line"
    for name in ("shop.v1.Order", "shop.v1.Order.Line", "shop.v1.Second"):
        assert file.at(file.indexes(name)).name == name
    for indexes in ((2,), (-1,), (0, 1), (1, 0), ()):
        with pytest.raises(ProtoError, match="its header names"):
            file.at(indexes)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<html><body>no</body></html>", "'<' stands at token 1"),
        ('{"type": "record"}', "no .proto file"),
        ("message A { int32 x = 1;", "ends in the middle"),
        ("message A { int32 x 1; }", "not '='"),
        ("message A { int32 x = 0; }", "0 is no field number"),
        ("message A { int32 x = one; }", "not a number"),
        ("message A { int32 x = 1; int32 y = 1; }", "field number 1 twice"),
        ("message A { Missing x = 1; }", "type Missing is declared neither"),
        ("message A { optional group G = 1 { } }", "group"),
        ("message A {" * 10_000, "nested more than 64 deep"),
        ("message A { string s = 1 [x = " + "[" * 10_000, "ends in the middle"),
        ("x" * 5_000_000, "5000000 characters"),
        ("message A { int32 é = 1; }", "character 18"),
    ],
)
def test_other_text_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(ProtoError, match=told):
        parse_proto(text)


def test_a_message_within_itself_is_no_column() -> None:
    file = parse_proto("message A { B b = 1; message B { A a = 1; } }")
    assert columns_of(file, file.named("")) == ()


_COLUMNS = (
    Column("I", INTEGER),
    Column("D", SqlType(Base.DECIMAL, 4, 2)),
    Column("S", SqlType(Base.STRUCT, fields=(
        Column("X", BIGINT),
        Column("M", SqlType(Base.MAP, element=SqlType(
            Base.STRUCT, fields=(Column("Y", STRING),)
        ))),
    ))),
    Column("T", SqlType(Base.TIMESTAMP)),
    Column("A", SqlType(Base.ARRAY, element=STRING)),
)  # fmt: skip


@pytest.mark.parametrize("nullable", Nullable)
def test_columns_survive_as_text(nullable: Nullable) -> None:
    read = parse_proto(proto_text(file_of(_COLUMNS, nullable)))
    assert columns_of(read, read.named("")) == _COLUMNS


def test_the_text_is_ksqldbs() -> None:
    columns = (Column("I", INTEGER), Column("L", BIGINT), Column("S", STRING))
    body = "message ConnectDefault1 {{\n  {0} I = 1;\n  {1} L = 2;\n  {2} S = 3;\n}}\n"
    plain = body.format("int32", "int64", "string")
    assert proto_text(file_of(columns)) == f'syntax = "proto3";\n\n{plain}'
    marked = body.format("optional int32", "optional int64", "optional string")
    assert proto_text(file_of(columns, Nullable.OPTIONAL)) == f'syntax = "proto3";\n\n{marked}'
    names = (f"google.protobuf.{n}Value" for n in ("Int32", "Int64", "String"))
    assert proto_text(file_of(columns, Nullable.WRAPPER)) == (
        'syntax = "proto3";\n\nimport "google/protobuf/wrappers.proto";\n\n' + body.format(*names)
    )


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (Column("a b", INTEGER), "`a b` cannot be the name"),
        (Column("1", INTEGER), "cannot be the name"),
        (
            Column("M", SqlType(Base.MAP, element=STRING, key=INTEGER)),
            "only supports MAP types with STRING keys",
        ),
        (
            Column("A", SqlType(Base.ARRAY, element=SqlType(Base.ARRAY, element=STRING))),
            "Protobuf has no ARRAY<ARRAY<STRING>>",
        ),
    ],
)
def test_columns_without_a_place_in_protobuf_are_refused(column: Column, told: str) -> None:
    with pytest.raises(ProtoError, match=told):
        file_of((column,))
