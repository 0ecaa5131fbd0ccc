"""PROTOBUF: messages of any writer's schema, beside the messages of Google's own library."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RegistryUnavailable, SchemaMissing, SchemaRefused
from holdfast.ingest.formats import key_decoder, value_decoder
from holdfast.ingest.formats.as_json import registered_as_json
from holdfast.ingest.formats.base import Decoded
from holdfast.tasks.registered.language import LANGUAGES
from holdfast.transport.registry.memory import MemoryRegistry
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
from holdfast.types.columns.schemas import DataSchema, Schema, SchemaKind
from holdfast.types.statements.sources import Format, Nullable
from tests.support.servers.away_registry import AwayRegistry

_LANGUAGE = LANGUAGES[Format.PROTOBUF]
_HEAD = b"\0\0\0\0\1"
_ID = (Column("ID", INTEGER),)


def _registry(*texts: str, references: tuple[tuple[str, str], ...] = ()) -> MemoryRegistry:
    found = MemoryRegistry()
    for number, text in enumerate(texts, 1):
        found.put("t-value", Schema(SchemaKind.PROTOBUF, text, references), number)
    return found


def _decoded(
    registry: MemoryRegistry, columns: Sequence[Column], payloads: Sequence[bytes | None]
) -> Decoded:
    decoder = value_decoder(Format.PROTOBUF, columns, columns, schemas=registry)
    found = decoder.decode(payloads)
    assert [len(c) for c in found.columns] == [len(payloads)] * len(columns)
    assert [c.type for c in found.columns] == [c.type.arrow() for c in columns]
    for column in found.columns:
        column.validate(full=True)
    return found


# -- against Google's library ----------------------------------------------------------------

_Field = descriptor_pb2.FieldDescriptorProto
_INT = st.integers(-(1 << 31), (1 << 31) - 1)
_LONG = st.integers(-(1 << 63), (1 << 63) - 1)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_SCALARS: dict[str, tuple[SqlType, st.SearchStrategy[Any]]] = {
    "int32": (INTEGER, _INT), "sint32": (INTEGER, _INT), "sfixed32": (INTEGER, _INT),
    "int64": (BIGINT, _LONG), "sint64": (BIGINT, _LONG), "sfixed64": (BIGINT, _LONG),
    "uint32": (BIGINT, st.integers(0, (1 << 32) - 1)),
    "fixed32": (BIGINT, st.integers(0, (1 << 32) - 1)),
    "uint64": (BIGINT, st.integers(0, (1 << 63) - 1)),
    "fixed64": (BIGINT, st.integers(0, (1 << 63) - 1)),
    "float": (DOUBLE, st.floats(width=32, allow_nan=False)),
    "double": (DOUBLE, st.floats(allow_nan=False)),
    "bool": (BOOLEAN, st.booleans()), "string": (STRING, _TEXT),
    "bytes": (SqlType(Base.BYTES), st.binary(max_size=5)),
}  # fmt: skip
_KEYS = ("string", "int32", "uint64", "bool")
_SHAPES = (
    "plain", "optional", "repeated", "map", "message", "messages", "map of messages", "oneof",
)  # fmt: skip
_INNER = {"q": ("sint64", 1), "w": ("string", 3)}  # of the message Part, by numbers with a gap


@st.composite
def _fields(draw: st.DrawFn) -> dict[str, tuple[str, str, str, int]]:
    """(shape, scalar, scalar of a map's keys, number) of each field."""
    shapes = draw(st.lists(st.sampled_from(_SHAPES), min_size=1, max_size=8))
    numbers = draw(
        st.lists(
            st.integers(1, 40) | st.integers(20_000, (1 << 29) - 1),
            min_size=len(shapes), max_size=len(shapes), unique=True,
        )
    )  # fmt: skip
    return {
        f"f{place}": (shape, draw(st.sampled_from([*_SCALARS])), draw(st.sampled_from(_KEYS)), n)
        for place, (shape, n) in enumerate(zip(shapes, numbers, strict=True))
    }


def _text_of(fields: dict[str, tuple[str, str, str, int]]) -> str:
    kinds = {
        "plain": "{0}", "optional": "optional {0}", "repeated": "repeated {0}",
        "map": "map<{1}, {0}>", "message": "Part", "messages": "repeated .p.Part",
        "map of messages": "map<{1}, p.Part>", "oneof": "{0}",
    }  # fmt: skip
    lines = []
    for name, (shape, scalar, key, number) in fields.items():
        line = f"{kinds[shape].format(scalar, key)} {name} = {number};"
        lines.append(f"oneof c_{name} {{ {line} }}" if shape == "oneof" else line)
    inner = " ".join(f"{kind} {name} = {n};" for name, (kind, n) in _INNER.items())
    body = "\n  ".join(lines)
    return (
        f'syntax = "proto3";\npackage p;\nmessage M {{\n  {body}\n}}\nmessage Part {{ {inner} }}\n'
    )


def _class_of(fields: dict[str, tuple[str, str, str, int]]) -> Any:
    """The same messages, without any text."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="p", syntax="proto3")
    made, part = file.message_type.add(name="M"), file.message_type.add(name="Part")

    def add(to: Any, name: str, number: int, kind: str) -> Any:
        field = to.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
        if kind in _SCALARS:
            field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
        else:
            field.type, field.type_name = _Field.TYPE_MESSAGE, kind
        return field

    for name, (kind, number) in _INNER.items():
        add(part, name, number, kind)
    for name, (shape, scalar, key, number) in fields.items():
        if shape.startswith("map"):
            entry = made.nested_type.add(name=f"{name.title()}Entry")
            entry.options.map_entry = True
            add(entry, "key", 1, key)
            add(entry, "value", 2, scalar if shape == "map" else ".p.Part")
            add(made, name, number, f".p.M.{entry.name}").label = _Field.LABEL_REPEATED
            continue
        field = add(made, name, number, ".p.Part" if shape.startswith("message") else scalar)
        if shape in ("repeated", "messages"):
            field.label = _Field.LABEL_REPEATED
        if shape == "oneof":
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"c_{name}")
    for name, (shape, *_) in fields.items():
        if shape == "optional":  # after all others, as descriptors must have them
            field = next(f for f in made.field if f.name == name)
            field.proto3_optional, field.oneof_index = True, len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))


def _filled(draw: st.DrawFn, made: Any, fields: dict[str, tuple[str, str, str, int]]) -> None:
    for name, (shape, scalar, key, _) in fields.items():
        if draw(st.booleans()):
            continue
        value = _SCALARS[scalar][1]
        if shape in ("plain", "optional", "oneof"):
            setattr(made, name, draw(value))
        elif shape == "repeated":
            getattr(made, name).extend(draw(st.lists(value, max_size=3)))
        elif shape == "message":
            _part(draw, getattr(made, name))
        elif shape == "messages":
            for _ in range(draw(st.integers(0, 3))):
                _part(draw, getattr(made, name).add())
        else:
            for entry in draw(st.sets(_SCALARS[key][1], max_size=3)):
                if shape == "map":
                    getattr(made, name)[entry] = draw(value)
                else:
                    _part(draw, getattr(made, name)[entry])


def _part(draw: st.DrawFn, part: Any) -> None:
    part.SetInParent()
    part.q, part.w = draw(_LONG), draw(_TEXT)


def _row_of(made: Any, fields: dict[str, tuple[str, str, str, int]]) -> dict[str, Any]:
    """A message's columns, by what Connect does of its fields."""
    row: dict[str, Any] = {}
    for name, (shape, _, key, _) in fields.items():
        value = getattr(made, name)
        if shape in ("optional", "message", "oneof") and not made.HasField(name):
            value = None
        elif shape == "message":
            value = _struct(value)
        elif shape in ("repeated", "messages"):
            value = [_struct(v) if shape == "messages" else v for v in value]
        elif shape.startswith("map"):
            value = {_key(k, key): v if shape == "map" else _struct(v) for k, v in value.items()}
        if shape == "oneof":
            place = [n for n, f in fields.items() if f[0] == "oneof"].index(name)
            row[f"C_{name.upper()}_{place}"] = None if value is None else {name.upper(): value}
        else:
            row[name.upper()] = value
    return row


def _struct(part: Any) -> dict[str, Any]:
    return {"Q": part.q, "W": part.w}


def _key(value: Any, kind: str) -> str:
    return str(value).lower() if kind == "bool" else str(value)


def _comparable(value: Any, kind: SqlType) -> Any:
    return dict(value) if kind.base is Base.MAP and value is not None else value


@given(fields=_fields(), data=st.data())
def test_messages_of_any_schema_are_read_and_written_as_googles_library_does(
    fields: dict[str, tuple[str, str, str, int]], data: st.DataObject
) -> None:
    kind = _class_of(fields)
    messages = [kind() for _ in range(data.draw(st.integers(1, 4)))]
    for each in messages:
        _filled(data.draw, each, fields)  # type: ignore[arg-type]
    text = _text_of(fields)
    registry = _registry(text)
    schema = registry.by_id(1)
    columns = _LANGUAGE.columns_of(schema, "", unwrapped=False, key=False)
    payloads = [_HEAD + b"\0" + m.SerializeToString() for m in messages]
    found = _decoded(registry, columns, payloads)
    assert not found.bad
    rows = [
        {c.name: _comparable(a[place].as_py(), c.type)
         for c, a in zip(columns, found.columns, strict=True)}
        for place in range(len(messages))
    ]  # fmt: skip
    assert rows == [_row_of(m, fields) for m in messages]
    if any(shape.startswith("map") and key != "string" for shape, _, key, _ in fields.values()):
        return  # ksqlDB writes no keys but texts
    written = _LANGUAGE.encode(
        columns, found.columns, DataSchema("t-value", schema, 1, fixed=True), unwrapped=False
    )
    assert [kind.FromString((p or b"")[6:]) for p in written] == messages


# -- what a stranger could send ----------------------------------------------------------------

_TREE = """
syntax = "proto3";
message A { int32 id = 1; message B { string id = 1; message C { int64 other = 1; } } }
message D { sint32 id = 1; A a = 2; }
"""


def test_each_record_is_the_message_that_its_header_names() -> None:
    registry = _registry(_TREE, "syntax = 'proto3'; message Old { int32 Id = 7; }")
    payloads = [
        _HEAD + b"\0\x08\x05",  # the short form of the first message
        _HEAD + b"\x02\x00\x08\x06",  # one index, 0
        _HEAD + b"\x02\x02\x08\x0d",  # D: zigzag
        b"\0\0\0\0\2\0\x38\x09",  # another schema
        _HEAD + b"\x06\0\0\0\x08\x0d",  # A.B.C, which has no such field
        _HEAD + b"\0",  # an empty message
        None,
    ]
    found = _decoded(registry, _ID, payloads)
    assert not found.bad
    assert found.columns[0].to_pylist() == [5, 6, -7, 9, None, 0, None]


def test_a_record_is_shown_with_all_fields_of_its_own_message() -> None:
    registry = _registry(_TREE)
    payload = _HEAD + b"\x02\x02\x08\x0d\x12\x02\x08\x05"
    assert registered_as_json(payload, registry) == b'{"id":-7,"a":{"id":5}}'
    assert registered_as_json(_HEAD + b"\x06\0\0\0\x08\5", registry) == b'{"other":5}'
    with pytest.raises(SchemaRefused, match="names message 7"):
        registered_as_json(_HEAD + b"\x02\x0e", registry)


def test_headers_that_name_nothing_make_bad_records_only() -> None:
    registry = _registry(_TREE, '{"type": "string"}')
    registry.put("t-value", Schema(SchemaKind.AVRO, '"int"'), 3)
    good = _HEAD + b"\0\x08\x05"
    bad = {
        _HEAD: "ends after 5 bytes, within its header",
        _HEAD + b"\x04\0": "within its header",
        _HEAD + b"\x80": "within its header",
        _HEAD + b"\xff" * 11: "more than 10 bytes",
        _HEAD + b"\x02\x04\x08\x05": "names message 2, but there are only 2",
        _HEAD + b"\x02\x01\x08\x05": "names message -1",
        _HEAD + b"\x04\0\x02\x08\x05": "names message 0.1, but there are only 1",
        _HEAD + b"\x01\x08\x05": "by -1 indexes",
        _HEAD + b"\xfe\xff\xff\xff\x0f" + b"\0" * 9: "at most 64",
        _HEAD + b"\x04\0\0\x08\x05": "its field id is string, but the column is INTEGER",
        b"\0\0\0\0\2\0": "no .proto file",
        b"\0\0\0\0\3\0": "of type AVRO",
        b"\0\0\0\0\4\0": "no schema with id 4",
        b"\1\0\0\0\1\0": "begins with byte 01",
        b"": "none",
        _HEAD + b"\0\x08": "",  # a field without its value
        _HEAD + b"\0\x0a\x7f": "",  # a length beyond the record
        _HEAD + b"\0\x0b" * 3: "",  # groups without an end
        _HEAD + b"\0" + b"\x0b" * 200_000: "",
    }
    payloads = [each for one in bad for each in (one, good)]
    found = _decoded(registry, _ID, payloads)
    assert found.columns[0].to_pylist() == [None, 5] * len(bad)
    assert set(found.bad) == set(range(0, len(payloads), 2))
    for place, words in enumerate(bad.values()):
        assert words in found.bad[2 * place]
    first = _decoded(registry, _ID, [_HEAD, good, _HEAD])
    assert set(first.bad) == {0, 2}


def test_messages_within_messages_without_end_are_a_bad_record() -> None:
    text = "syntax = 'proto3'; message N { int32 id = 1; N n = 2; }"
    column = Column("N", SqlType(Base.STRUCT, fields=(Column("ID", INTEGER),)))
    data = b"\x08\x07"
    for _ in range(3_000):
        data = b"\x12" + _varint(len(data)) + data
    found = _decoded(_registry(text), [*_ID, column], [_HEAD + b"\0" + data, _HEAD + b"\0\x08\1"])
    # The columns end where the recursion begins: what is deeper is skipped unread.
    assert not found.bad
    assert found.columns[1].to_pylist() == [{"ID": 0}, None]


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def test_a_field_of_another_wire_type_is_as_if_it_were_not_there() -> None:
    found = _decoded(_registry(_TREE), _ID, [_HEAD + b"\0\x0d\1\0\0\0", _HEAD + b"\0\x0a\1\1"])
    assert (found.columns[0].to_pylist(), found.bad) == ([0, 0], {})


@given(st.lists(st.binary(max_size=40).map(lambda b: _HEAD + b), max_size=20))
def test_garbage_is_never_more_than_a_bad_record(payloads: list[bytes]) -> None:
    columns = _LANGUAGE.columns_of(
        Schema(SchemaKind.PROTOBUF, _WIDE), "", unwrapped=False, key=False
    )
    _decoded(_registry(_WIDE), columns, payloads)


_WIDE = """
syntax = "proto3";
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
import "google/type/date.proto"; import "google/type/timeofday.proto";
import "confluent/type/decimal.proto";
message A {
  int32 i = 1; string s = 2; google.protobuf.Timestamp t = 3; google.type.Date d = 4;
  google.type.TimeOfDay h = 5; map<string, google.protobuf.Int32Value> m = 6; repeated A a = 7;
  oneof o { A x = 8; bytes y = 9; } E e = 10; enum E { Z = 0; }
  confluent.type.Decimal c = 11 [(confluent.field_meta) = {params: [
    {key: "precision", value: "6"}, {key: "scale", value: "2"}]}];
}
"""


def test_a_registry_that_is_away_stops_only_what_needs_it() -> None:
    schemas = AwayRegistry()
    schemas.put("t", Schema(SchemaKind.PROTOBUF, _TREE), 1)
    decoder = value_decoder(Format.PROTOBUF, _ID, _ID, schemas=schemas)
    assert decoder.decode([_HEAD + b"\0\x08\5"]).columns[0].to_pylist() == [5]
    with pytest.raises(RegistryUnavailable):
        decoder.decode([_HEAD + b"\0\x08\5", b"\0\0\0\0\2\0\x08\5"])


# -- keys, names, and what is written ------------------------------------------------------------


def test_a_key_of_one_column_is_a_message_too() -> None:
    schema = _LANGUAGE.schema_of(_ID, "", unwrapped=True)
    data = DataSchema("t-key", schema, 1)
    (payload,) = _LANGUAGE.encode(_ID, [pa.array([7], pa.int32())], data, unwrapped=False)
    assert payload == _HEAD + b"\0\x08\x07"
    decoder = key_decoder(Format.PROTOBUF, _ID, _ID, schemas=_registry(schema.text))
    assert decoder.decode([payload]).columns[0].to_pylist() == [7]


def test_a_message_within_another_has_its_place_before_it() -> None:
    columns = (Column("OTHER", BIGINT),)
    data = DataSchema("t", Schema(SchemaKind.PROTOBUF, _TREE), 9, full_name="A.B.C", fixed=True)
    written = _LANGUAGE.encode(columns, [pa.array([1, None])], data, unwrapped=False)
    head = b"\0\0\0\0\x09\x06\0\0\0"
    assert list(written) == [head + b"\x08\1", head]


@pytest.mark.parametrize(
    ("full_name", "columns", "words"),
    [
        ("", (Column("GONE", INTEGER),), "has no field for the column GONE"),
        ("D", (Column("ID", STRING),), "its field id is sint32, but the column is STRING"),
        ("A", (Column("ID", BIGINT),), "but the column is BIGINT"),
    ],
)
def test_columns_that_a_schema_cannot_hold_are_refused(
    full_name: str, columns: tuple[Column, ...], words: str
) -> None:
    data = DataSchema("t", Schema(SchemaKind.PROTOBUF, _TREE), 9, full_name, fixed=True)
    arrays = [pa.array([], c.type.arrow()) for c in columns]
    with pytest.raises(SchemaRefused, match=words):
        _LANGUAGE.encode(columns, arrays, data, unwrapped=False)


def test_a_name_picks_the_message_and_must_be_there() -> None:
    schema = Schema(SchemaKind.PROTOBUF, _TREE)
    found = _LANGUAGE.columns_of(schema, "A.B", unwrapped=False, key=False)
    assert found == (Column("ID", STRING),)
    with pytest.raises(SchemaMissing, match=r"no message Gone, only A, D"):
        _LANGUAGE.columns_of(schema, "Gone", unwrapped=False, key=False)
    # ksqlDB ignores names that are like its own.
    own = _LANGUAGE.columns_of(schema, "ConnectDefault1", unwrapped=False, key=False)
    assert own == _ID


def test_imports_come_from_references() -> None:
    text = 'syntax = "proto3"; import "e.proto"; message L { ev.Event event = 1; }'
    event = 'syntax = "proto3"; package ev; message Event { int64 timestamp = 1; }'
    registry = _registry(text, references=(("e.proto", event),))
    schema = registry.by_id(1)
    columns = _LANGUAGE.columns_of(schema, "", unwrapped=False, key=False)
    assert columns == (
        Column("EVENT", SqlType(Base.STRUCT, fields=(Column("TIMESTAMP", BIGINT),))),
    )
    kept = _LANGUAGE.columns_of(schema, "", unwrapped=False, key=False, exact=True)
    assert kept == (Column("event", SqlType(Base.STRUCT, fields=(Column("timestamp", BIGINT),))),)
    found = _decoded(registry, columns, [_HEAD + b"\0\x0a\2\x08\x05"])
    assert found.columns[0].to_pylist() == [{"TIMESTAMP": 5}]


@pytest.mark.parametrize("nullable", Nullable)
def test_rows_come_back_as_the_schemas_own_text_has_them(nullable: Nullable) -> None:
    columns = (
        Column("I", INTEGER),
        Column("P", SqlType(Base.DECIMAL, 6, 2)),
        Column("M", SqlType(Base.MAP, element=SqlType(Base.STRUCT, fields=_ID))),
        Column("A", SqlType(Base.ARRAY, element=STRING)),
    )
    rows: list[list[Any]] = [
        [1, None], [Decimal("12.50"), None], [[("k", {"ID": 3})], None], [["x", ""], None],
    ]  # fmt: skip
    arrays = [pa.array(r, c.type.arrow()) for r, c in zip(rows, columns, strict=True)]
    schema = _LANGUAGE.schema_of(columns, "shop.Sold", unwrapped=False, nullable=nullable)
    assert "package shop;" in schema.text
    data = DataSchema("t", schema, 1, "shop.Sold")
    written = _LANGUAGE.encode(columns, arrays, data, unwrapped=False)
    found = _decoded(_registry(schema.text), columns, list(written))
    assert not found.bad
    empty = 0 if nullable in (Nullable.NONE, Nullable.BYTES) else None
    assert [c.to_pylist() for c in found.columns] == [
        [1, empty], [Decimal("12.50"), None], [[("k", {"ID": 3})], []], [["x", ""], []],
    ]  # fmt: skip


_NEAR_ZERO = """
syntax = "proto3"; import "google/protobuf/wrappers.proto";
message M { double d = 1; float f = 2; map<string, double> m = 3; repeated double l = 4;
  google.protobuf.DoubleValue w = 5; }
"""


def test_a_zero_keeps_its_sign_wherever_it_stands() -> None:
    schema = Schema(SchemaKind.PROTOBUF, _NEAR_ZERO)
    columns = _LANGUAGE.columns_of(schema, "", unwrapped=False, key=False)
    values = [-0.0, 0.0, None]
    shapes = {"M": [("k", -0.0)], "L": [-0.0]}
    arrays = [pa.array([shapes.get(c.name, v) for v in values], c.type.arrow()) for c in columns]
    data = DataSchema("t-value", schema, 1, fixed=True)
    written = _LANGUAGE.encode(columns, arrays, data, unwrapped=False)
    found = _decoded(_registry(_NEAR_ZERO), columns, written)
    assert repr(found.columns[0].to_pylist()) == "[-0.0, 0.0, 0.0]"
    assert repr(found.columns[1].to_pylist()) == "[-0.0, 0.0, 0.0]"
    assert repr(found.columns[2].to_pylist()[0]) == "[('k', -0.0)]"
    assert repr(found.columns[3].to_pylist()[0]) == "[-0.0]"
    assert repr(found.columns[4].to_pylist()) == "[-0.0, 0.0, None]"
    assert written[1] is not None
    assert b"\x09" not in written[1][6:7], "0.0 itself is not written"


_NESTED = """
syntax = "proto3";
message A { int32 id = 1; string t = 2; message B { int32 id = 1; string t = 2; } }
"""


@pytest.mark.parametrize("head", [b"\0", b"\x02\0", b"\x04\0\0", b"\x04\x80\0\0"])
@pytest.mark.parametrize("bad", [None, 0, 3])
def test_messages_of_all_sizes_are_read_together_and_a_bad_one_alone(
    head: bytes, bad: int | None
) -> None:
    """Sizes of one to three bytes in a varint, behind heads of several lengths."""
    sizes = [0, 1, 100, 127, 128, 16_383, 16_384, 1_900_000, 1_900_000, 1_900_000, 2]
    columns = (Column("ID", INTEGER), Column("T", STRING))
    payloads = []
    for number, size in enumerate(sizes, 1):
        length = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
        payloads.append(_HEAD + head + b"\x08" + bytes([number]) + b"\x12" + length + b"x" * size)
    if bad is not None:
        payloads[bad] = _HEAD + head + b"\x08\x01\x0c"  # the end of a group that nobody began
    found = _decoded(_registry(_NESTED), columns, payloads)
    assert found.bad.keys() == (set() if bad is None else {bad})
    ids, texts = (column.to_pylist() for column in found.columns)
    for place, size in enumerate(sizes):
        if place != bad:
            assert (ids[place], len(texts[place] or "")) == (place + 1, size)
