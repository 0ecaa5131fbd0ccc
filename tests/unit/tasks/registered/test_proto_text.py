"""Protobuf's schema language: what is read from text, and what is written."""

from __future__ import annotations

from base64 import b64encode

import pytest
from google.protobuf import descriptor_pb2

from holdfast.tasks.registered.proto.columns import columns_of, file_of, proto_text
from holdfast.tasks.registered.proto.files import ProtoError
from holdfast.tasks.registered.proto.parse import parse_proto
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, Base, Column, SqlType
from holdfast.types.statements.sources import Nullable

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


def test_the_text_of_maps_and_structs_is_ksqldbs() -> None:
    """As in ksqlDB's own historical plans: messages are numbered through, maps are entries."""
    names = SqlType(Base.STRUCT, fields=(Column("ID", BIGINT),))
    item = SqlType(Base.STRUCT, fields=(Column("NAME", STRING), Column("CATEGORY", names)))
    columns = (
        Column("ITEMID", item),
        Column("MAPCOL", SqlType(Base.MAP, element=DOUBLE)),
        Column("ADDRESS", names),
    )
    assert proto_text(file_of(columns)) == (
        'syntax = "proto3";\n\nmessage ConnectDefault1 {\n  ConnectDefault2 ITEMID = 1;\n'
        "  repeated ConnectDefault4Entry MAPCOL = 2;\n  ConnectDefault5 ADDRESS = 3;\n\n"
        "  message ConnectDefault2 {\n    string NAME = 1;\n    ConnectDefault3 CATEGORY = 2;\n  \n"
        "    message ConnectDefault3 {\n      int64 ID = 1;\n    }\n  }\n"
        "  message ConnectDefault4Entry {\n    string key = 1;\n    double value = 2;\n  }\n"
        "  message ConnectDefault5 {\n    int64 ID = 1;\n  }\n}\n"
    )


def test_a_name_is_that_of_the_outermost_message() -> None:
    columns = (Column("S", SqlType(Base.STRUCT, fields=(Column("X", BIGINT),))),)
    assert proto_text(file_of(columns, full_name="shop.eu.Sold")) == (
        'syntax = "proto3";\npackage shop.eu;\n\nmessage Sold {\n  ConnectDefault1 S = 1;\n\n'
        "  message ConnectDefault1 {\n    int64 X = 1;\n  }\n}\n"
    )
    assert "message ConnectDefault1 {" in proto_text(file_of(columns, full_name="ConnectDefault9"))
    with pytest.raises(ProtoError, match="cannot be the name of a Protobuf message"):
        file_of(columns, full_name="shop.a-b")


def test_optional_marks_messages_and_wrappers_are_within_lists_too() -> None:
    kinds = (SqlType(Base.TIMESTAMP), SqlType(Base.ARRAY, element=BIGINT),
             SqlType(Base.MAP, element=BIGINT))  # fmt: skip
    columns = tuple(Column(f"C{n}", kind) for n, kind in enumerate(kinds))
    marked = proto_text(file_of(columns, Nullable.OPTIONAL))
    assert "  optional google.protobuf.Timestamp C0 = 1;\n  repeated int64 C1 = 2;" in marked
    assert "    string key = 1;\n    int64 value = 2;" in marked
    wrapped = proto_text(file_of(columns, Nullable.WRAPPER))
    assert "  repeated google.protobuf.Int64Value C1 = 2;" in wrapped
    assert "    google.protobuf.StringValue key = 1;" in wrapped


def _columns_of(body: str, *, exact: bool = False) -> list[str]:
    file = parse_proto(f"syntax = 'proto3'; message A {{ {body} }}")
    return [str(c) for c in columns_of(file, file.named("A"), exact=exact)]


@pytest.mark.parametrize(
    ("body", "columns"),
    [
        ("map<int32, bool> m = 1;", ["M MAP<STRING, BOOLEAN>"]),
        ("repeated XEntry m = 1; message XEntry { string key = 1; int32 value = 2; }",
         ["M MAP<STRING, INTEGER>"]),
        ("repeated XEntry m = 1; message XEntry { string value = 1; int32 key = 2; }",
         ["M ARRAY<STRUCT<VALUE STRING, KEY INTEGER>>"]),
        ("repeated X m = 1; message X { string key = 1; int32 value = 2; }",
         ["M ARRAY<STRUCT<KEY STRING, VALUE INTEGER>>"]),
        ("repeated XEntry m = 1; message XEntry { double key = 1; int32 value = 2; } int32 i = 2;",
         ["I INTEGER"]),
        ("A a = 1; repeated A b = 2; map<string, A> c = 3; int32 i = 4; oneof o { A d = 5; }",
         ["I INTEGER"]),
        ("google.protobuf.Empty e = 1; google.protobuf.FieldMask s = 2; int32 i = 3;",
         ["S STRUCT<PATHS ARRAY<STRING>>", "I INTEGER"]),
        ("int32 a = 1; string A = 2;", ["A STRING"]),
        ("confluent.type.Decimal d = 1;", ["D DECIMAL(38, 0)"]),
        (('confluent.type.Decimal d = 1 [(confluent.field_meta) = {params: [{key: "scale", '
         'value: "2"}]}];'), ["D DECIMAL(38, 2)"]),
        (('confluent.type.Decimal d = 1 [(confluent.field_meta) = {params: [{key: "precision", '
         'value: "64"}]}]; int32 i = 2;'), ["I INTEGER"]),
        (('confluent.type.Decimal d = 1 [(confluent.field_meta) = {params: [{key: "precision", '
         'value: "²"}, {key: "scale", value: "99999999999999999999"}]}];'), ["D DECIMAL(38, 0)"]),
        ("int32 i = 0x1; int32 j = 010;", ["I INTEGER", "J INTEGER"]),
        ("message message = 1; message message { int32 enum = 1; } int32 map = 2; bool oneof = 3;",
         ["MESSAGE STRUCT<ENUM INTEGER>", "MAP INTEGER", "ONEOF BOOLEAN"]),
    ],
)  # fmt: skip
def test_columns_are_as_connect_has_them(body: str, columns: list[str]) -> None:
    assert _columns_of(body) == columns


def test_names_stay_as_they_are_where_they_are_to() -> None:
    body = "B fooBar = 1; message B { int32 baz_Q = 1; } oneof o { bool z = 2; }"
    assert _columns_of(body, exact=True) == [
        "o_0 STRUCT<z BOOLEAN>", "fooBar STRUCT<baz_Q INTEGER>",
    ]  # fmt: skip


def test_messages_that_double_at_each_level_are_refused() -> None:
    levels = "".join(f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }} " for n in range(30))
    file = parse_proto(f"{levels} message M30 {{ int32 i = 1; }}")
    with pytest.raises(ProtoError, match="more than"):
        columns_of(file, file.named("M0"))


def test_a_types_name_is_that_of_its_own_file() -> None:
    """A reference's names are not looked up again within the file that imports it."""
    other = "package a; message N { int32 x = 1; } message H { N n = 1; }"
    text = 'package a.b; import "o.proto"; message N { string s = 1; } message T { a.H h = 1; }'
    with pytest.raises(ProtoError, match=r"type a\.H is declared neither"):
        parse_proto(text)
    file = parse_proto(text, [("o.proto", other)])
    assert [str(c) for c in columns_of(file, file.named("a.b.T"))] == [
        "H STRUCT<N STRUCT<X INTEGER>>"
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("message A { map<double, int32> m = 1; }", "not a type of a map's keys"),
        ("message A { optional group G = 1 { int32 i = 1; } }", "group"),
        ("message A { int32 i = 099; }", "not a number"),
        ("message A { int32 i = 1e5; }", "not a number"),
        ("message A { int32 i = 1 [default = ", "ends in the middle"),
        ("message A { int32 i = " + "9" * 10_000 + "; }", "number"),
        ("message A {" * 5_000, "nested more than"),
        ("syntax =", "ends in the middle"),
    ],
)
def test_texts_that_are_odd_are_errors(text: str, told: str) -> None:
    with pytest.raises(ProtoError, match=told):
        parse_proto(text)


def test_a_descriptor_in_base64_is_a_schema_too() -> None:
    """Python's clients register it, and some registries give it back as it is."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="p.q", syntax="proto3")
    kind = descriptor_pb2.FieldDescriptorProto
    made, inner = file.message_type.add(name="A"), file.message_type.add(name="B")
    made.oneof_decl.add(name="one")
    made.oneof_decl.add(name="_o")
    entry = made.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    for to, name, number in ((entry, "key", 1), (entry, "value", 2), (inner, "s", 1)):
        to.field.add(name=name, number=number, type=kind.TYPE_STRING, label=1)
    made.field.add(name="m", number=9, type=11, type_name=".p.q.A.MEntry", label=3)
    made.field.add(name="x", number=2, type=kind.TYPE_SINT64, label=1, oneof_index=0)
    made.field.add(name="o", number=3, type=5, label=1, proto3_optional=True, oneof_index=1)
    made.field.add(name="b", number=4, type=11, type_name=".p.q.B", label=3)
    made.field.add(name="e", number=5, type=14, type_name=".p.q.E", label=1)
    price = made.field.add(
        name="c", number=6, type=11, type_name=".confluent.type.Decimal", label=1
    )
    pairs = b"".join(
        b"\x12" + bytes([len(p)]) + p
        for p in (b"\x0a\x09precision\x12\x016", b"\x0a\x05scale\x12\x012")
    )
    price.options.MergeFromString(b"\x82\x44" + bytes([len(pairs)]) + pairs)
    file.enum_type.add(name="E").value.add(name="Z", number=0)
    text = b64encode(file.SerializeToString()).decode()
    found = parse_proto(text)
    assert [str(c) for c in columns_of(found, found.named("p.q.A"))] == [
        "ONE_0 STRUCT<X BIGINT>", "M MAP<STRING, STRING>", "O INTEGER",
        "B ARRAY<STRUCT<S STRING>>", "E STRING", "C DECIMAL(6, 2)",
    ]  # fmt: skip
    assert [f.name for f in found.named("p.q.A").fields if f.optional] == ["o"]
    assert found.at([1]).name == "p.q.B"
    importing = parse_proto("message I { p.q.B b = 1; }", [("a.proto", text)])
    assert [str(c) for c in columns_of(importing, importing.named(""))] == ["B STRUCT<S STRING>"]
    with pytest.raises(ProtoError, match=r"neither \.proto text nor a descriptor"):
        parse_proto(text[8:24])
    with pytest.raises(ProtoError, match="neither"):
        parse_proto("abcde")


def test_the_text_of_decimals_is_ksqldbs_and_protocs() -> None:
    columns = (Column("DEC", SqlType(Base.DECIMAL, 6, 4)),)
    body = (
        "message ConnectDefault1 {\n  confluent.type.Decimal DEC = 1 [(confluent.field_meta) = {\n"
        '    params: [\n      {\n        value: "6",\n        key: "precision"\n      },\n'
        '      {\n        value: "4",\n        key: "scale"\n      }\n    ]\n  }];\n}\n'
    )
    imported = 'import "confluent/type/decimal.proto";\n\n'
    assert proto_text(file_of(columns)) == f'syntax = "proto3";\n\n{imported}{body}'
    meta = 'import "confluent/meta.proto";\n'
    assert proto_text(file_of(columns), for_protoc=True) == (
        f'syntax = "proto3";\n\n{meta}{imported}{body}'
    )
