"""JSON by a schema: our payloads against a validator of JSON Schema, and what a stranger sends."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import SchemaRefused
from holdfast.ingest.formats import value_decoder
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
from holdfast.types.statements.sources import Format

_JSON = LANGUAGES[Format.JSON_SR]
_DECIMAL = SqlType(Base.DECIMAL, 12, 3)
_BYTES = SqlType(Base.BYTES)
_MAP = SqlType(Base.MAP, element=BIGINT)
_PLACE = SqlType(Base.STRUCT, fields=(Column("A", INTEGER), Column("b", STRING)))
_PART = SqlType(Base.STRUCT, fields=(Column("Q", _DECIMAL),))
_NAME = "org.apache.kafka.connect.data."
_DECIMAL_SCHEMA = {
    "type": "number",
    "title": _NAME + "Decimal",
    "connect.version": 1,
    "connect.type": "bytes",
    "connect.parameters": {"scale": "3", "connect.decimal.precision": "12"},
}
_COLUMNS = (
    Column("ID", BIGINT),
    Column("N", INTEGER),
    Column("NAME", STRING),
    Column("X", DOUBLE),
    Column("OK", BOOLEAN),
    Column("PRICE", _DECIMAL),
    Column("RAW", _BYTES),
    Column("TAGS", SqlType(Base.ARRAY, element=STRING)),
    Column("COUNTS", _MAP),
    Column("PLACE", _PLACE),
    Column("PARTS", SqlType(Base.ARRAY, element=_PART)),
)  # fmt: skip


def _schema(written: Any) -> Schema:
    return Schema(SchemaKind.JSON, json.dumps(written))


def _bytes(value: Any, schema_id: int = 1) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + json.dumps(value).encode()


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _or_null(written: Any) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, written]}


def _read(
    written: Any, columns: tuple[Column, ...], payloads: list[bytes | None], *, wrap: bool = True
) -> Decoded:
    schemas = MemoryRegistry()
    schemas.register("t-value", written if isinstance(written, Schema) else _schema(written))
    decoder = value_decoder(Format.JSON_SR, columns, columns, wrap=wrap, schemas=schemas)
    return decoder.decode(payloads)


def _texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


_LONG = st.integers(-(1 << 63), (1 << 63) - 1)
_INT = st.integers(-(1 << 31), (1 << 31) - 1)
_PRICE = st.decimals(-999_999_999, 999_999_999, places=3)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ID": st.none() | _LONG,
            "N": st.none() | _INT,
            "NAME": st.none() | _texts(),
            "X": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "OK": st.none() | st.booleans(),
            "PRICE": st.none() | _PRICE,
            "RAW": st.none() | st.binary(max_size=5),
            "TAGS": st.none() | st.lists(st.none() | _texts(), max_size=4),
            "COUNTS": st.none()
            | st.dictionaries(_texts(), st.none() | _LONG, max_size=3).map(lambda d: [*d.items()]),
            "PLACE": st.none()
            | st.fixed_dictionaries({"A": st.none() | _INT, "b": st.none() | _texts()}),
            "PARTS": st.none()
            | st.lists(st.none() | st.fixed_dictionaries({"Q": st.none() | _PRICE}), max_size=3),
        }
    ),
    min_size=1,
    max_size=20,
)


@given(rows=_ROWS, cut=st.data())
def test_what_we_write_keeps_to_the_schema_and_is_read_back(
    rows: list[dict[str, Any]], cut: st.DataObject
) -> None:
    arrays = [pa.array([r[c.name] for r in rows], c.type.arrow()) for c in _COLUMNS]
    schema = _JSON.schema_of(_COLUMNS, "", unwrapped=False)
    payloads = _JSON.encode(_COLUMNS, arrays, DataSchema("t", schema, 1), unwrapped=False)
    written = json.loads(schema.text)
    jsonschema.Draft7Validator.check_schema(written)
    validator = jsonschema.Draft7Validator(written)
    for row, payload in zip(rows, payloads, strict=True):
        assert payload is not None
        assert payload[:5] == b"\0\0\0\0\1"
        found = json.loads(payload[5:], parse_float=Decimal)
        validator.validate(found)
        assert found["ID"] == row["ID"]
        assert found["NAME"] == row["NAME"]
        assert found["PLACE"] == row["PLACE"]
        assert found["PRICE"] == row["PRICE"]
        assert found["X"] is None or float(found["X"]) == row["X"]
        assert found["RAW"] is None or base64.b64decode(found["RAW"]) == row["RAW"]
        entries = found["COUNTS"]
        assert (entries and [(e["key"], e["value"]) for e in entries]) == row["COUNTS"]
    damaged = cut.draw(st.integers(0, len(rows) - 1))
    length = cut.draw(st.integers(0, len(payloads[damaged] or b"") - 1))
    short_ = [p[:length] if i == damaged and p else p for i, p in enumerate(payloads)]
    whole, short = _read(schema, _COLUMNS, [*payloads]), _read(schema, _COLUMNS, [*short_, None])
    assert not whole.bad
    assert set(short.bad) == {damaged}
    others = pa.array([i for i in range(len(rows)) if i != damaged], pa.int64())
    for array, one, other in zip(arrays, whole.columns, short.columns, strict=True):
        assert one.equals(array)
        assert other.take(others).equals(array.take(others))
        assert other[-1].as_py() is None


_QUICK = tuple(c for c in _COLUMNS if c.name not in ("RAW", "COUNTS", "PARTS"))


@given(
    rows=_ROWS, odd=st.lists(st.sampled_from(["1.5", "x", 7, True, [], {}, 10**400]), max_size=2)
)
def test_the_fast_decoders_read_what_the_exact_one_reads(
    rows: list[dict[str, Any]], odd: list[Any]
) -> None:
    """A map among the wanted columns leaves every record to the exact one."""
    kinds = {"string": STRING, "integer": BIGINT, "number": DOUBLE, "boolean": BOOLEAN}
    names = {kind: name for name, kind in kinds.items()} | {INTEGER: "integer"}
    properties = {c.name.lower(): {"type": names[c.type]} for c in _QUICK if c.type in names}
    written = _object(
        **properties,
        price=_DECIMAL_SCHEMA,
        tags={"type": "array", "items": {"type": "string"}},
        place=_object(b={"type": "string"}, a={"type": "integer"}),
        m={"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}},
    )
    documents = [
        {
            **{c.name.lower(): r[c.name] for c in _QUICK},
            "price": None if r["PRICE"] is None else float(r["PRICE"]),
            "place": r["PLACE"] and {"a": r["PLACE"]["A"], "b": r["PLACE"]["b"]},
        }
        for r in rows
    ]
    documents += [{**documents[0], c.name.lower(): value} for value in odd for c in _QUICK]
    payloads: list[bytes | None] = [_bytes(d) for d in documents]
    fast = _read(written, _QUICK, payloads)
    exact = _read(written, (*_QUICK, Column("M", _MAP)), payloads)
    assert fast.bad == exact.bad
    for one, other in zip(fast.columns, exact.columns, strict=False):
        assert one.equals(other)


@pytest.mark.parametrize(("column", "value"), [
    (Column("V", kind), value) for kind, value in [
        (BIGINT, 1 << 60), (STRING, 'a"\n'), (DOUBLE, 0.5), (_DECIMAL, Decimal("1.500")),
        (_BYTES, b"\0\xff"), (_PLACE, {"A": 1, "b": None}), (_MAP, [("a", 1), ("", None)]),
        (SqlType(Base.ARRAY, element=STRING), ["a", None]),
    ]
])  # fmt: skip
def test_a_single_column_without_an_object(column: Column, value: Any) -> None:
    array = pa.array([value, None], column.type.arrow())
    schema = _JSON.schema_of([column], "", unwrapped=True)
    found = _JSON.encode([column], [array], DataSchema("t", schema, 1), unwrapped=True)
    assert found[1] is None
    assert found[0] is not None
    jsonschema.validate(json.loads(found[0][5:]), json.loads(schema.text))
    back = _read(schema, (column,), [*found, b"\0\0\0\0\1null"], wrap=False)
    assert not back.bad
    assert back.nulls == {2}
    assert back.columns[0].to_pylist() == [value, None, None]


@given(st.lists(st.binary(max_size=40).map(lambda b: b"\0\0\0\0\1" + b), max_size=20))
def test_garbage_is_never_more_than_a_bad_record(payloads: list[bytes]) -> None:
    found = _read(_JSON.schema_of(_COLUMNS, "", unwrapped=False), _COLUMNS, [*payloads])
    for column in found.columns:
        assert len(column) == len(payloads)
        column.validate(full=True)


def test_bad_input_is_left_out_with_its_reason() -> None:
    schemas = MemoryRegistry()
    schemas.put("t-value", _schema(_object(id={"type": "integer"})), 1)
    schemas.put("t-value", Schema(SchemaKind.AVRO, '"long"'), 2)
    schemas.put("t-value", _schema(_object(id={"type": "array", "items": {"type": "string"}})), 3)
    schemas.put("t-value", Schema(SchemaKind.JSON, "{"), 4)
    columns = (Column("ID", BIGINT), Column("MORE", STRING))
    decoder = value_decoder(Format.JSON_SR, columns, columns, schemas=schemas)
    deep = b"\0\0\0\0\1" + b'{"id": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    found = decoder.decode(
        [
            _bytes({"id": 1, "more": "not in the schema"}),
            b'{"id": 2}',
            b"\0\0\0",
            b'\0\0\0\0\1{"id": 3',
            b"\0\0\0\0\1",
            deep,
            _bytes({"id": 4}, 2),
            _bytes({"id": ["5"]}, 3),
            _bytes({"id": 6}, 4),
            _bytes({"id": 7}, 9),
            _bytes([8]),
            _bytes({"id": 9}),
        ]
    )
    assert found.columns[0].to_pylist() == [1, *[None] * 10, 9]
    assert found.columns[1].null_count == 12
    words = {
        1: "begins with byte 7b",
        2: "3 bytes",
        3: "not valid JSON",
        4: "not valid JSON",
        5: "nested too deeply",
        6: "of type AVRO",
        7: "its array cannot be read as ID BIGINT",
        8: "no JSON schema",
        9: "no schema with id 9",
        10: "an array where an object",
    }
    assert set(found.bad) == set(words)
    for i, word in words.items():
        assert word in found.bad[i]


_UNION = {"anyOf": [{"type": "integer"}, {"type": "string"}, _object(a={"type": "string"})]}
_JOINED = {"allOf": [{"$ref": "#/definitions/P"}, _object(b={})]}
_OF_UNION = SqlType(
    Base.STRUCT,
    fields=tuple(
        Column(f"IO.CONFLUENT.CONNECT.JSON.ONEOF.FIELD.{i}", kind)
        for i, kind in enumerate(
            (BIGINT, STRING, SqlType(Base.STRUCT, fields=(Column("A", STRING),)))
        )
    ),
)


@pytest.mark.parametrize(
    ("written", "kind", "value", "expected"),
    [
        ({"enum": ["A", "B"]}, STRING, "B", "B"),
        ({"type": "integer"}, INTEGER, 7, 7),
        ({"type": "integer"}, STRING, 7, "7"),
        ({"type": "number"}, DOUBLE, 1, 1.0),
        ({"type": ["string", "null"]}, STRING, None, None),
        ({"type": "integer", "default": 5}, BIGINT, None, 5),
        ({"type": "number", "default": 0.5}, DOUBLE, None, 0.5),
        (_DECIMAL_SCHEMA, _DECIMAL, 1.5, Decimal("1.500")),
        (_DECIMAL_SCHEMA, _DECIMAL, base64.b64encode(b"\xfa\x24").decode(), Decimal("-1.500")),
        (
            {"type": "array", "items": _DECIMAL_SCHEMA},
            SqlType(Base.ARRAY, element=_DECIMAL),
            ["Bdw=", 1],
            [Decimal("1.500"), Decimal(1)],
        ),
        ({"type": "string", "connect.type": "bytes"}, _BYTES, "YWJj", b"abc"),
        (
            {"type": "integer", "title": _NAME + "Timestamp", "connect.type": "int64"},
            BIGINT,
            1_000,
            1_000,
        ),
        (
            {
                "type": "object",
                "connect.type": "map",
                "additionalProperties": {"type": "integer"},
            },
            _MAP,
            {"a": 1, "b": None},
            [("a", 1), ("b", None)],
        ),
        (
            {
                "type": "array",
                "connect.type": "map",
                "items": _object(key={"type": "integer"}, value={"type": "integer"}),
            },
            _MAP,
            [{"key": 5, "value": 1}, {"key": 5, "value": 2}],
            [("5", 2)],
        ),
        (_object(a={"type": "integer"}, B={}), _PLACE, {"a": 1, "B": "x"}, {"A": 1, "b": None}),
        ({"$ref": "#/definitions/P"}, _PLACE, {"a": 1}, {"A": 1, "b": None}),
        (_JOINED, _PLACE, {"a": 1, "b": 2}, {"A": 1, "b": "2"}),
        (_UNION, BIGINT, 7, 7),
        (_UNION, _OF_UNION, 7, {0: 7}),
        (_UNION, _OF_UNION, "x", {1: "x"}),
        (_UNION, _OF_UNION, {"a": "y", "c": 1}, {2: {"A": "y"}}),
    ],
)  # fmt: skip
def test_types(written: Any, kind: SqlType, value: Any, expected: Any) -> None:
    if kind is _OF_UNION:
        expected = {f.name: expected.get(i) for i, f in enumerate(kind.fields)}
    place = _object(a={"type": "integer"})
    root = {**_object(v=written), "definitions": {"P": place}}
    found = _read(root, (Column("V", kind),), [_bytes({"v": value})])
    assert not found.bad
    assert found.columns[0].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        ({"type": "number"}, BIGINT, 1),
        ({"type": "string"}, BIGINT, "1"),
        ({"type": "string"}, _BYTES, "YWJj"),
        (_DECIMAL_SCHEMA, _DECIMAL, "no base64"),
        (_DECIMAL_SCHEMA, _DECIMAL, base64.b64encode(b"\x7f" * 90).decode()),
        ({"type": "integer"}, INTEGER, 1 << 31),
        (_UNION, BIGINT, "x"),
        (_UNION, _OF_UNION, 1.5),
        (
            {
                "type": "array",
                "connect.type": "map",
                "items": _object(key={"type": "string"}, value={"type": "integer"}),
            },
            _MAP,
            [{"key": None, "value": 1}],
        ),
    ],
)
def test_what_does_not_fit_is_a_bad_record(written: Any, kind: SqlType, value: Any) -> None:
    found = _read(_object(v=written), (Column("V", kind),), [_bytes({"v": value})])
    assert set(found.bad) == {0}
    assert "V" in found.bad[0].upper()


@given(st.lists(st.sampled_from([1, "Bdw=", "1", 2.5, None, "x"]), max_size=5), st.booleans())
def test_a_decimal_is_the_same_in_every_chunk(values: list[Any], together: bool) -> None:
    """Text is base64 also where a fast decoder would take its digits, and beside plain numbers."""
    column = (Column("PRICE", _DECIMAL),)
    payloads = [_bytes({"price": v}) for v in values]
    written = _object(price=_DECIMAL_SCHEMA)
    apart = [_read(written, column, [p]) for p in payloads]
    if together:
        found = _read(written, column, [*payloads])
        assert found.columns[0].to_pylist() == [one.columns[0][0].as_py() for one in apart]
        assert set(found.bad) == {i for i, one in enumerate(apart) if one.bad}
    meant = {1: Decimal(1), "Bdw=": Decimal("1.5"), 2.5: Decimal("2.5")}
    assert [one.columns[0][0].as_py() for one in apart] == [meant.get(v) for v in values]


# Each definition has two fields of the next one: 2 ** 30 fields in all.
_TWICE = {
    "$ref": "#/definitions/d0",
    "definitions": {
        **{
            f"d{i}": _object(
                a={"$ref": f"#/definitions/d{i + 1}"}, b={"$ref": f"#/definitions/d{i + 1}"}
            )
            for i in range(30)
        },
        "d30": {"type": "integer"},
    },
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("{}", "says no type"),
        ('{"type": "string"}', "anonymous type"),
        ('{"type": "object"}', "does not include any columns"),
        ('{"$ref": "#/definitions/no"}', "refers to '#/definitions/no'"),
        ('{"$ref": "#"}', "itself"),
        ('{"type": "object", "properties": {"a": {"type": "array"}}}', "a is an array that"),
        ('{"type": "object", "properties": {"a": {}}}', "a is {}, which says no type"),
        ('{"allOf": ' * 300 + "[]" + "}" * 300, "no type"),
        (json.dumps(_TWICE), "references counted each time"),
        ('{"items": ' * 300 + "{}" + "}" * 300, "more than 64 levels"),
    ],
)
def test_what_is_no_schema_is_refused(text: str, words: str) -> None:
    with pytest.raises(SchemaRefused) as error:
        _JSON.columns_of(Schema(SchemaKind.JSON, text), "", unwrapped=False, key=False)
    assert words in str(error.value)


_WORDS = st.sampled_from([
    "object", "array", "string", "integer", "number", "null", "boolean", "map", "bytes", "int32",
    "float32", "#", "#/properties/a", "#/definitions/a", _NAME + "Decimal", "", "x",
])  # fmt: skip
_KEYWORDS = st.sampled_from([
    "type", "properties", "items", "oneOf", "anyOf", "allOf", "$ref", "connect.type", "title",
    "connect.index", "connect.parameters", "scale", "connect.decimal.precision", "enum", "const",
    "default", "required", "definitions", "additionalProperties", "$id", "key", "value", "a", "b",
])  # fmt: skip
_ANY_SCHEMA = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 40) | st.floats() | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYWORDS, inner, max_size=4),
    max_leaves=25,
)


@given(_ANY_SCHEMA, st.booleans())
def test_any_schema_is_read_or_refused(written: Any, unwrapped: bool) -> None:
    schema = _schema(written)
    found = _read(schema, (Column("A", STRING),), [_bytes({"a": 1})], wrap=not unwrapped)
    assert len(found.columns[0]) == 1
    try:
        columns = _JSON.columns_of(schema, "", unwrapped=unwrapped, key=False)
    except SchemaRefused:
        return
    assert columns
    found = _read(schema, columns, [_bytes({"a": 1}), _bytes(1)], wrap=not unwrapped)
    for array, column in zip(found.columns, columns, strict=True):
        assert array.type == column.type.arrow()


def test_columns_are_inferred_as_ksqldb_does() -> None:
    written = {
        **_object(
            id={"type": "integer", "connect.type": "int32", "connect.index": 1},
            Name={**_or_null({"type": "string"}), "connect.index": 0},
            self={"$ref": "#", "connect.index": 2},
            at={
                "type": "integer",
                "title": _NAME + "Timestamp",
                "connect.type": "int64",
                "connect.index": 9,
            },
            price={**_DECIMAL_SCHEMA, "connect.index": 8},
            one={**_UNION, "connect.index": 7},
        )
    }
    found = _JSON.columns_of(_schema(written), "", unwrapped=False, key=False)
    union = "STRUCT<" + ", ".join(f"{f.name} {f.type}" for f in _OF_UNION.fields) + ">"
    assert [str(c) for c in found] == [
        "NAME STRING",
        "ID INTEGER",
        f"ONE {union}",
        "PRICE DECIMAL(12, 3)",
        "AT TIMESTAMP",
    ]
    key = _JSON.columns_of(_schema(_object(a={"type": "boolean"})), "", unwrapped=True, key=True)
    assert [str(c) for c in key] == ["ROWKEY STRUCT<A BOOLEAN>"]


def test_schemas_that_others_refer_to() -> None:
    other = json.dumps(
        {"$id": "http://x/place.json", "definitions": {"P": _object(a={"type": "integer"})}}
    )
    schema = Schema(
        SchemaKind.JSON,
        json.dumps(
            {**_object(p={"$ref": "place.json#/definitions/P"}), "$id": "http://x/root.json"}
        ),
        (("place.json", other),),
    )
    found = _JSON.columns_of(schema, "", unwrapped=False, key=False)
    assert [str(c) for c in found] == ["P STRUCT<A BIGINT>"]


def test_the_schema_is_ksqldbs_to_the_letter() -> None:
    """As ksqlDB registers it; a text that differs would be a new version beside ksqlDB's."""
    columns = [Column("TS", SqlType(Base.TIMESTAMP)), Column("VAL", _DECIMAL), Column("M", _MAP)]
    text = _JSON.schema_of(columns, "", unwrapped=False).text
    assert text == (
        '{"type":"object","properties":{'
        '"VAL":{"connect.index":1,"oneOf":[{"type":"null"},{"type":"number",'
        '"title":"org.apache.kafka.connect.data.Decimal","connect.version":1,'
        '"connect.type":"bytes",'
        '"connect.parameters":{"scale":"3","connect.decimal.precision":"12"}}]},'
        '"M":{"connect.index":2,"oneOf":[{"type":"null"},{"type":"array","connect.type":"map",'
        '"items":{"type":"object","properties":{'
        '"value":{"connect.index":1,"oneOf":[{"type":"null"},{"type":"integer","connect.type":"int64"}]},'
        '"key":{"connect.index":0,"oneOf":[{"type":"null"},{"type":"string"}]}}}}]},'
        '"TS":{"connect.index":0,"oneOf":[{"type":"null"},{"type":"integer",'
        '"title":"org.apache.kafka.connect.data.Timestamp","connect.version":1,'
        '"connect.type":"int64"}]}}}'
    )


def _written(schema: Any, columns: tuple[Column, ...], row: dict[str, Any]) -> Any:
    arrays = [pa.array([row[c.name]], c.type.arrow()) for c in columns]
    data = DataSchema("t", _schema(schema), 7, fixed=True)
    payload = _JSON.encode(columns, arrays, data, unwrapped=False)[0]
    assert payload is not None
    return json.loads(payload[5:])


def test_a_schema_of_an_id_says_how_rows_are_written() -> None:
    columns = (Column("A", INTEGER), Column("PLACE", _PLACE), Column("M", _MAP))
    written = _object(
        a={"type": "integer"},
        more=_or_null({"type": "string"}),
        place=_object(b={"type": "string"}, a={"type": "integer", "default": 5}),
        rest={"type": "string"},
        kind={"type": "string", "default": "x"},
        M={"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}},
    )
    row = {"A": 1, "PLACE": {"A": None, "b": None}, "M": [("k", 2)]}
    found = _written(written, columns, row)
    assert found == {"a": 1, "more": None, "place": {"a": 5}, "kind": "x", "M": {"k": 2}}
    nothing = _written(written, columns, {"A": None, "PLACE": None, "M": None})
    assert nothing == {"more": None, "kind": "x"}
    jsonschema.validate(found, written)
    jsonschema.validate(nothing, written)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (_object(b={"type": "integer"}), "misses field with name: A"),
        ({**_object(a={"type": "integer"}), "required": ["a"]}, "A has no value"),
        ({**_object(a={"type": "integer"}, b={}), "required": ["b"]}, "b has no value"),
        (_object(a={"type": "string"}), "string cannot hold A, which is INTEGER"),
        ({"type": "integer"}, "the columns need an object"),
    ],
)
def test_a_schema_that_cannot_hold_the_rows_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(SchemaRefused, match=words):
        _written(schema, (Column("A", INTEGER),), {"A": None})
