"""Messages to columns and back, beside the messages of Google's own library."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError

from holdfast.errors import SchemaRefused
from holdfast.tasks.registered.messages import written_messages
from holdfast.tasks.registered.proto.columns import columns_of, file_of
from holdfast.tasks.registered.proto.files import ProtoError
from holdfast.tasks.registered.proto.parse import parse_proto
from holdfast.tasks.registered.proto.read import MessageReader
from holdfast.tasks.registered.proto.write import MessageWriter
from holdfast.types.columns.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    Base,
    Column,
    SqlType,
)
from holdfast.types.statements.sources import Nullable

_TEXT = """
syntax = "proto3"; package p;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message M {
  int32 i = 1; string s = 2; double d = 3; repeated int64 l = 4; optional int32 o = 5;
  google.protobuf.Int32Value w = 6; google.protobuf.Timestamp ts = 7; N n = 8;
  map<string, int32> m = 9; E e = 10; uint32 u = 11; uint64 u6 = 12; repeated N r = 13;
  float f = 14; bool b = 15; bytes by = 16;
  oneof ch { int32 ca = 17; string cb = 18; }
  message N { int32 x = 1; string y = 2; }
  enum E { A = 0; B = 1; }
}
"""
_Field = descriptor_pb2.FieldDescriptorProto
_KINDS: dict[str, Any] = {
    "i": _Field.TYPE_INT32, "s": _Field.TYPE_STRING, "d": _Field.TYPE_DOUBLE,
    "l": _Field.TYPE_INT64, "o": _Field.TYPE_INT32, "w": ".google.protobuf.Int32Value",
    "ts": ".google.protobuf.Timestamp", "n": ".p.M.N", "m": ".p.M.MEntry", "e": _Field.TYPE_ENUM,
    "u": _Field.TYPE_UINT32, "u6": _Field.TYPE_UINT64, "r": ".p.M.N", "f": _Field.TYPE_FLOAT,
    "b": _Field.TYPE_BOOL, "by": _Field.TYPE_BYTES, "ca": _Field.TYPE_INT32,
    "cb": _Field.TYPE_STRING,
}  # fmt: skip


def _message() -> Any:
    """The class of M, made without our parser."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="p", syntax="proto3")
    file.dependency.extend([wrappers_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name])
    made = file.message_type.add(name="M")
    made.oneof_decl.add(name="ch")
    made.oneof_decl.add(name="_o")
    for number, (name, kind) in enumerate(_KINDS.items(), 1):
        field = made.field.add(name=name, number=number)
        many = name in "lmr"
        field.label = _Field.LABEL_REPEATED if many else _Field.LABEL_OPTIONAL
        if isinstance(kind, str):
            field.type, field.type_name = _Field.TYPE_MESSAGE, kind
        else:
            field.type = kind
        if name in ("ca", "cb"):
            field.oneof_index = 0
    made.field[9].type_name = ".p.M.E"
    made.field[4].proto3_optional, made.field[4].oneof_index = True, 1
    values = made.enum_type.add(name="E").value
    for number, name in enumerate("AB"):
        values.add(name=name, number=number)
    inner = made.nested_type.add(name="N")
    entry = made.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    int32, string, one = _Field.TYPE_INT32, _Field.TYPE_STRING, _Field.LABEL_OPTIONAL
    inner.field.add(name="x", number=1, type=int32, label=one)
    inner.field.add(name="y", number=2, type=string, label=one)
    entry.field.add(name="key", number=1, type=string, label=one)
    entry.field.add(name="value", number=2, type=int32, label=one)
    pool = descriptor_pool.DescriptorPool()
    for needed in (wrappers_pb2, timestamp_pb2):
        pool.AddSerializedFile(needed.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))


M = _message()
_FILE = parse_proto(_TEXT)
_COLUMNS = columns_of(_FILE, _FILE.named(""))


def _full() -> Any:
    made = M(i=-3, s="hé", d=1.5, l=[1, 2, -3], o=0, e=1, u=4_000_000_000, u6=2**63 - 1)
    made.f, made.b, made.by, made.cb = 1.25, True, b"\x00\xff", "x"
    made.w.SetInParent()
    made.n.x, made.m["k"], made.ts.seconds, made.ts.nanos = 5, 3, -5, 123_456_789
    made.r.add(x=1)
    made.r.add(y="q")
    return made


def _read(messages: Sequence[Any], columns: Sequence[Column] = _COLUMNS) -> list[dict[str, Any]]:
    reader = MessageReader(_FILE, _FILE.named(""), columns)
    data = [m if isinstance(m, bytes) else m.SerializeToString() for m in messages]
    arrays = reader.read(pa.array(data, pa.binary()))
    assert [a.type for a in arrays] == [c.type.arrow() for c in columns]
    lists = [a.to_pylist() for a in arrays]
    return [
        dict(zip((c.name for c in columns), row, strict=True)) for row in zip(*lists, strict=True)
    ]


def test_googles_messages_are_read() -> None:
    full, empty = _read([_full(), M()])
    assert full == {
        "CH_0": {"CA": None, "CB": "x"}, "I": -3, "S": "hé", "D": 1.5, "L": [1, 2, -3], "O": 0,
        "W": 0, "N": {"X": 5, "Y": ""}, "M": [("k", 3)], "E": "B", "U": 4_000_000_000,
        "U6": 2**63 - 1, "R": [{"X": 1, "Y": ""}, {"X": 0, "Y": "q"}], "F": 1.25, "B": True,
        "BY": b"\x00\xff",
        "TS": dt.datetime(1969, 12, 31, 23, 59, 55, 123_000, tzinfo=full["TS"].tzinfo),
    }  # fmt: skip
    assert empty == {
        "CH_0": None, "I": 0, "S": "", "D": 0.0, "L": [], "O": None, "W": None, "N": None, "M": [],
        "E": "A", "U": 0, "U6": 0, "R": [], "F": 0.0, "B": False, "BY": b"", "TS": None,
    }  # fmt: skip


def test_googles_library_reads_what_is_written() -> None:
    reader = MessageReader(_FILE, _FILE.named(""), _COLUMNS)
    data = [_full().SerializeToString(), M().SerializeToString()]
    arrays = reader.read(pa.array(data, pa.binary()))
    written = MessageWriter(_FILE, _FILE.named(""), _COLUMNS).write(arrays).to_pylist()
    expected = _full()
    expected.ts.nanos = 123_000_000  # TIMESTAMP is in milliseconds
    assert M.FromString(written[0]) == expected
    assert M.FromString(written[1]) == M()


def test_an_optional_field_tells_null_from_its_default() -> None:
    columns = [Column("O", INTEGER), Column("I", INTEGER)]
    assert _read([M(), M(o=0)], columns) == [{"O": None, "I": 0}, {"O": 0, "I": 0}]


def test_columns_are_found_in_any_case_and_fields_may_be_missing() -> None:
    columns = [Column("i", INTEGER), Column("NEW", STRING), Column("S", STRING)]
    assert _read([M(i=1, s="a")], columns) == [{"i": 1, "NEW": None, "S": "a"}]
    assert _read([M(i=1)], [Column("NEW", STRING)]) == [{"NEW": None}]


def test_an_enums_unknown_number_has_javas_name_and_is_not_written() -> None:
    columns = [Column("E", STRING)]
    assert _read([M(e=1), M(e=7)], columns) == [{"E": "B"}, {"E": "UNKNOWN_ENUM_VALUE_E_7"}]
    writer = MessageWriter(_FILE, _FILE.named(""), columns)
    with pytest.raises(ProtoError, match=r"p\.M\.E has no value 'C'"):
        writer.write([pa.array(["A", None, "C"])])


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (Column("S", INTEGER), "field s is string, but the column is INTEGER"),
        (Column("U", INTEGER), "field u is uint32"),  # it may not fit
        (Column("L", BIGINT), "field l is repeated int64"),
        (Column("I", SqlType(Base.ARRAY, element=INTEGER)), "field i is int32"),
        (Column("M", SqlType(Base.ARRAY, element=INTEGER)), "field m is map<string, int32>"),
        (Column("N", STRING), r"field n is p\.M\.N"),
        (Column("TS", BIGINT), "Timestamp"),
        (Column("E", INTEGER), r"field e is p\.M\.E"),
    ],
)
def test_a_column_of_another_type_is_refused_with_both(column: Column, told: str) -> None:
    with pytest.raises(ProtoError, match=told):
        MessageReader(_FILE, _FILE.named(""), [column])


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff", b"\x08", b"\x12\x05ab", b"\x12\x02\xff\xfe", b"\x12\xff\xff\xff\xff\x0f",
        b"\x0b" * 10_000, b"\x5b" * 5_000_000, b"\x5b" * 200_000 + b"\x5c" * 200_000,
    ],
    ids=["varint", "cut", "short", "utf-8", "length", "groups", "deep groups", "closed groups"],
)  # fmt: skip
def test_garbage_is_refused_and_ends_no_process(data: bytes) -> None:
    reader = MessageReader(_FILE, _FILE.named(""), [Column("S", STRING)])
    assert list(reader.why_bad([M(i=1).SerializeToString(), data])) == [1]


def test_changed_bytes_are_read_as_google_reads_them_or_refused() -> None:
    """`ptars` alone panics over some of these, and takes others for messages."""
    chance = random.Random(11)
    columns = [c for c in _COLUMNS if c.name not in ("M", "TS", "CH_0")]
    reader = MessageReader(_FILE, _FILE.named(""), columns)
    data = [_changed(chance, _full().SerializeToString()) for _ in range(3_000)]
    bad = reader.why_bad(data)
    good = [each for place, each in enumerate(data) if place not in bad]
    assert 300 < len(good) < 2_700
    for row, each in zip(_read(good, columns), good, strict=True):
        try:
            read = M.FromString(each)
        except DecodeError:
            continue  # something is wrong in a field that nobody wants
        assert (row["I"], row["S"], row["L"], row["U"]) == (read.i, read.s, list(read.l), read.u)
        assert row["R"] == [{"X": r.x, "Y": r.y} for r in read.r]
        assert row["N"] == ({"X": read.n.x, "Y": read.n.y} if read.HasField("n") else None)


def _changed(chance: random.Random, message: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(chance.randint(1, 2)):
        at = chance.randrange(len(data))
        what = chance.randrange(3)
        if what == 0:
            data[at] = chance.randrange(256)
        elif what == 1:
            del data[at : at + chance.randint(1, 3)]
        else:
            data[at:at] = chance.randbytes(2)
    return bytes(data)


def test_a_large_value_is_one_value() -> None:
    assert len(_read([M(s="x" * 50_000_000)], [Column("S", STRING)])[0]["S"]) == 50_000_000


_ALL = (
    Column("I", INTEGER), Column("L", BIGINT), Column("D", DOUBLE), Column("B", BOOLEAN),
    Column("S", STRING), Column("BY", SqlType(Base.BYTES)),
    Column("P", SqlType(Base.DECIMAL, 9, 3)),
    Column("TS", SqlType(Base.TIMESTAMP)), Column("DT", SqlType(Base.DATE)),
    Column("TM", SqlType(Base.TIME)), Column("A", SqlType(Base.ARRAY, element=STRING)),
    Column("M", SqlType(Base.MAP, element=DOUBLE)),
    Column("N", SqlType(Base.STRUCT, fields=(
        Column("X", INTEGER), Column("A", SqlType(Base.ARRAY, element=SqlType(Base.DATE))),
        Column("M", SqlType(Base.MAP, element=SqlType(Base.STRUCT, fields=(Column("Y", STRING),)))),
    ))),
)  # fmt: skip
_ROW: dict[str, Any] = {
    "I": -(2**31), "L": 2**63 - 1, "D": float("-inf"), "B": True, "S": "ü\x00", "BY": b"\xff",
    "P": Decimal("-123456.789"), "TS": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    "DT": dt.date(1, 1, 1), "TM": 86_399_999, "A": ["", "b"], "M": [("k", -0.0), ("", 1.0)],
    "N": {"X": 0, "A": [dt.date(9999, 12, 31)], "M": [("q", {"Y": "z"})]},
}  # fmt: skip


@pytest.mark.parametrize("nullable", Nullable)
def test_rows_come_back_as_they_were(nullable: Nullable) -> None:
    rows = [_ROW, dict.fromkeys(_ROW), {**_ROW, "N": {"X": None, "A": None, "M": None}}]
    arrays = [pa.array([r[c.name] for r in rows], c.type.arrow()) for c in _ALL]
    file = file_of(_ALL, nullable)
    written = MessageWriter(file, file.named(""), _ALL).write(arrays)
    found = MessageReader(file, file.named(""), _ALL, nullable).read(written)
    full, empty, inner = zip(*(a.to_pylist() for a in found), strict=True)
    assert full == tuple(a[0].as_py() for a in arrays)
    plain = nullable in (Nullable.NONE, Nullable.BYTES)
    assert inner[-1] == {"X": 0 if plain else None, "A": [], "M": []}
    no_bytes = b"" if nullable is Nullable.NONE else None
    scalars = (0, 0, 0.0, False, "", no_bytes) if plain else (None,) * 6
    assert empty == (*scalars, None, None, None, None, [], [], None)


def test_nulls_within_lists_and_maps_are_default_values() -> None:
    columns = _ALL[10:12]
    file = file_of(columns)
    arrays = [
        pa.array([["a", None]], columns[0].type.arrow()),
        pa.array([[("k", None)]], columns[1].type.arrow()),
    ]
    written = MessageWriter(file, file.named(""), columns).write(arrays)
    found = MessageReader(file, file.named(""), columns).read(written)
    assert [a.to_pylist()[0] for a in found] == [["a", ""], [("k", 0.0)]]


_DATE = SqlType(Base.DATE)
_STRUCT_OF_DATE = SqlType(Base.STRUCT, fields=(Column("D", _DATE),))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (SqlType(Base.ARRAY, element=_DATE), [dt.date(2024, 2, 29), None]),
        (SqlType(Base.MAP, element=_DATE), [("k", None)]),
    ],
)
def test_a_null_among_dates_is_refused_since_no_reader_takes_an_empty_one(
    kind: SqlType, value: list[Any]
) -> None:
    columns = (Column("A", kind),)
    file = file_of(columns)
    writer = MessageWriter(file, file.named(""), columns)
    with pytest.raises(ProtoError, match=r"field (A|value) has a NULL in a list"):
        writer.write([pa.array([value], kind.arrow())])
    with pytest.raises(SchemaRefused, match="cannot be written as Protobuf"):
        written_messages(columns, [pa.array([value], kind.arrow())], Nullable.NONE)
    fine = [value[:-1], None, []]
    found = MessageReader(file, file.named(""), columns).read(
        writer.write([pa.array(fine, kind.arrow())])
    )
    assert found[0].to_pylist() == [value[:-1], [], []]


def test_a_null_among_other_messages_is_one_without_fields() -> None:
    kinds = [SqlType(Base.TIMESTAMP), SqlType(Base.TIME), _STRUCT_OF_DATE]
    columns = tuple(
        Column(f"A{n}", SqlType(Base.ARRAY, element=kind)) for n, kind in enumerate(kinds)
    )
    arrays = [pa.array([[None]], c.type.arrow()) for c in columns]
    written = written_messages(columns, arrays, Nullable.NONE)
    file = file_of(columns)
    found = MessageReader(file, file.named(""), columns).read(written)
    midnight = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert [a.to_pylist() for a in found] == [[[midnight]], [[0]], [[{"D": None}]]]


def test_slices_are_written_as_themselves() -> None:
    columns = _ALL[10:]
    arrays = [pa.array([_ROW[c.name], None, _ROW[c.name]], c.type.arrow()) for c in columns]
    file = file_of(columns)
    writer = MessageWriter(file, file.named(""), columns)
    whole = writer.write(arrays).to_pylist()
    assert writer.write([a.slice(1) for a in arrays]).to_pylist() == whole[1:]


_LOGICAL = """
syntax = "proto3";
import "google/type/date.proto"; import "google/type/timeofday.proto";
import "google/protobuf/timestamp.proto"; import "confluent/type/decimal.proto";
message L { google.type.Date d = 1; google.type.TimeOfDay h = 2; google.protobuf.Timestamp t = 3;
  confluent.type.Decimal c = 4 [(confluent.field_meta).params = {key: "precision", value: "6"},
    (confluent.field_meta).params = {key: "scale", value: "2"}]; }
"""


def _inner(field: int, *parts: int | bytes) -> bytes:
    """A message of whole numbers and bytes, numbered from 1, as a field of another."""
    data = b""
    for number, part in enumerate(parts, 1):
        if isinstance(part, bytes):
            data += bytes([number << 3 | 2]) + _varint(len(part)) + part
        else:
            data += bytes([number << 3]) + _varint(part)
    return bytes([field << 3 | 2]) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    rest, made = number % (1 << 64), bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*made, rest])


def _logical(*messages: bytes) -> list[dict[str, Any]]:
    file = parse_proto(_LOGICAL)
    columns = columns_of(file, file.named(""))
    reader = MessageReader(file, file.named(""), columns)
    assert not reader.why_bad(messages)
    arrays = reader.read(pa.array(messages, pa.binary()))
    rows = zip(*(a.to_pylist() for a in arrays), strict=True)
    return [dict(zip((c.name for c in columns), row, strict=True)) for row in rows]


def test_times_and_decimals_at_their_limits() -> None:
    year_only = _inner(1, 2026)
    leap = _inner(1, 2024, 2, 29)
    late = _inner(2, 23, 59, 59, 999_999_999)
    early = _inner(3, -1, 1_000_000)
    cents = _inner(4, (-1_234_567).to_bytes(3, "big", signed=True), 9, 4)
    found = _logical(year_only + late, leap + early, cents, b"")
    assert [row["D"] for row in found] == [dt.date(2026, 1, 1), dt.date(2024, 2, 29), None, None]
    assert found[0]["H"] == 86_399_999
    assert found[1]["T"].timestamp() == -0.999
    assert [row["C"] for row in found] == [None, None, Decimal("-123.46"), None]


@pytest.mark.parametrize(
    "message",
    [
        _inner(1, 2026, 2, 29), _inner(1, 2026, 13, 1), _inner(1, 0, 5, 5), _inner(1, 2026, -1, 1),
        _inner(1, 2026, 4, -3), _inner(1, (1 << 31) - 1, 1, 1),
        _inner(2, 24), _inner(2, 1, 60), _inner(2, 1, 1, 60), _inner(2, 1, 1, 1, -1),
        _inner(3, 1 << 62), _inner(3, -(1 << 63)), _inner(3, 1, 1_000_000_000),
        _inner(4, b"\x7f" * 17, 0, 2), _inner(4, b"\x01", 0, -(1 << 31)),
        _inner(4, b"\x01" * 1_000_000, 0, 0), _inner(4, b"\x0f\x42\x40", 0, 0),
    ],
)  # fmt: skip
def test_what_is_no_date_time_or_decimal_of_the_column_is_refused(message: bytes) -> None:
    with pytest.raises(ProtoError):
        _logical(message)


def test_a_tiny_decimal_is_nothing() -> None:
    assert _logical(_inner(4, b"\x01", 0, 90))[0]["C"] == 0


def test_of_a_maps_entries_with_one_key_the_last_counts() -> None:
    """Google's library writes none twice; concatenated messages have them."""
    columns = [Column("M", SqlType(Base.MAP, element=INTEGER))]
    one, two = M(m={"a": 1, "b": 2}), M(m={"b": 3, "c": 4})
    both = one.SerializeToString() + two.SerializeToString()
    assert dict(M.FromString(both).m) == {"a": 1, "b": 3, "c": 4}
    found = _read([M(m={"b": 9}), both, M(), both], columns)
    pairs = [sorted(row["M"]) for row in found]
    merged = [("a", 1), ("b", 3), ("c", 4)]
    assert pairs == [[("b", 9)], merged, [], merged]


def test_defaults_that_proto2_declares_stand_where_nothing_is() -> None:
    file = parse_proto(
        'message P { optional int32 i = 1 [default = -0x10]; optional string s = 2 [default = "a"'
        ' "\\"b"]; optional E e = 3 [deprecated = true, default = Y]; optional bool b = 4 '
        "[default = true]; required double d = 5 [default = 1.5e3]; optional int64 n = 6; "
        "enum E { X = 0; Y = 010; } }"
    )
    columns = columns_of(file, file.named(""))
    reader = MessageReader(file, file.named(""), columns)
    arrays = reader.read(pa.array([b"", b"\x08\x00\x12\x00\x18\x00\x20\x00"], pa.binary()))
    first = {c.name: a[0].as_py() for c, a in zip(columns, arrays, strict=True)}
    assert first == {"I": -16, "S": 'a"b', "E": "Y", "B": True, "D": 1500.0, "N": 0}
    assert [a[1].as_py() for a in arrays][:4] == [0, "", "X", False]
    (written,) = (
        MessageWriter(file, file.named(""), columns)
        .write([pa.nulls(1, c.type.arrow()) for c in columns])
        .to_pylist()
    )
    assert written == b""


@pytest.mark.parametrize(
    ("entry", "empty"),
    [
        ("string key = 1; int32 value = 2;", 0),
        ("optional string key = 1; optional int32 value = 2;", 0),
        ("string key = 1; oneof o { int32 value = 2; }", 0),
        ("google.protobuf.StringValue key = 1; google.protobuf.Int32Value value = 2;", 0),
        ("string key = 1; V value = 2; message V { int32 x = 1; V v = 2; }", {"X": 0}),
        ("string key = 1; E value = 2; enum E { Z = 0; }", "Z"),
    ],
)
def test_an_entry_always_has_a_key_and_a_value(entry: str, empty: object) -> None:
    file = parse_proto(
        "syntax = 'proto3'; message A { repeated MEntry m = 1; message MEntry { " + entry + " } }"
    )
    (column,) = columns_of(file, file.named(""))
    reader = MessageReader(file, file.named(""), [column])
    (found,) = reader.read(pa.array([b"\x0a\x00", b""], pa.binary()))
    found.validate(full=True)
    assert found.to_pylist() == [[("", empty)], []]
    (again,) = reader.read(MessageWriter(file, file.named(""), [column]).write([found]))
    assert again.equals(found)
