"""Avro: our columns against fastavro's records, and what a stranger could send."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RegistryUnavailable, SchemaRefused
from holdfast.ingest.formats import value_decoder
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
from tests.support.servers.away_registry import AwayRegistry

_AVRO = LANGUAGES[Format.AVRO]
_DECIMAL = SqlType(Base.DECIMAL, 12, 3)
_PART = SqlType(Base.STRUCT, fields=(Column("Q", BIGINT),))
_COLUMNS = (
    Column("ID", BIGINT),
    Column("N", INTEGER),
    Column("NAME", STRING),
    Column("X", DOUBLE),
    Column("OK", BOOLEAN),
    Column("PRICE", _DECIMAL),
    Column("RAW", SqlType(Base.BYTES)),
    Column("TAGS", SqlType(Base.ARRAY, element=STRING)),
    Column("COUNTS", SqlType(Base.MAP, element=BIGINT)),
    Column("PLACE", SqlType(Base.STRUCT, fields=(Column("A", INTEGER), Column("B", STRING)))),
    Column("PARTS", SqlType(Base.ARRAY, element=_PART)),
)  # fmt: skip


def _schema(written: Any) -> Schema:
    return Schema(SchemaKind.AVRO, json.dumps(written))


def _bytes(written: Any, value: Any, schema_id: int = 1) -> bytes:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(written), value)
    return b"\0" + schema_id.to_bytes(4, "big") + data.getvalue()


def _record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields]}


def _texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


_LONG = st.integers(-(1 << 63), (1 << 63) - 1)
_INT = st.integers(-(1 << 31), (1 << 31) - 1)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ID": st.none() | _LONG,
            "N": st.none() | _INT,
            "NAME": st.none() | _texts(),
            "X": st.none() | st.floats(allow_nan=False),
            "OK": st.none() | st.booleans(),
            "PRICE": st.none() | st.decimals(-999_999_999, 999_999_999, places=3),
            "RAW": st.none() | st.binary(max_size=5),
            "TAGS": st.none() | st.lists(st.none() | _texts(), max_size=4),
            "COUNTS": st.none() | st.lists(st.tuples(_texts(), st.none() | _LONG), max_size=3),
            "PLACE": st.none()
            | st.fixed_dictionaries({"A": st.none() | _INT, "B": st.none() | _texts()}),
            "PARTS": st.none()
            | st.lists(st.none() | st.fixed_dictionaries({"Q": st.none() | _LONG}), max_size=3),
        }
    ),
    min_size=1,
    max_size=20,
)


@given(rows=_ROWS, cut=st.data())
def test_what_we_write_fastavro_reads_and_we_read_back(
    rows: list[dict[str, Any]], cut: st.DataObject
) -> None:
    arrays = [pa.array([r[c.name] for r in rows], c.type.arrow()) for c in _COLUMNS]
    schemas = MemoryRegistry()
    schema = _AVRO.schema_of(_COLUMNS, "", unwrapped=False)
    data = DataSchema("t-value", schema, schemas.register("t-value", schema))
    payloads = _AVRO.encode(_COLUMNS, arrays, data, unwrapped=False)
    parsed = fastavro.parse_schema(json.loads(schema.text))
    for row, payload in zip(rows, payloads, strict=True):
        assert payload is not None
        found: Any = fastavro.schemaless_reader(io.BytesIO(payload[5:]), parsed, None)
        entries = found["COUNTS"]
        found["COUNTS"] = entries and [(e["key"], e["value"]) for e in entries]
        assert {**row, "COUNTS": row["COUNTS"] or None} == {
            **found,
            "COUNTS": found["COUNTS"] or None,
        }
    decoder = value_decoder(Format.AVRO, _COLUMNS, _COLUMNS, schemas=schemas)
    damaged = cut.draw(st.integers(0, len(rows) - 1))
    length = cut.draw(st.integers(0, len(payloads[damaged] or b"") - 1))
    given_ = [p[:length] if i == damaged and p else p for i, p in enumerate(payloads)]
    whole, short = decoder.decode(payloads), decoder.decode([*given_, None])
    assert not whole.bad
    assert set(short.bad) == {damaged}
    others = pa.array([i for i in range(len(rows)) if i != damaged], pa.int64())
    for array, one, other in zip(arrays, whole.columns, short.columns, strict=True):
        assert one.equals(array)
        assert other.take(others).equals(array.take(others))
        assert other[-1].as_py() is None


@given(st.lists(st.binary(max_size=40).map(lambda b: b"\0\0\0\0\1" + b), max_size=20))
def test_garbage_is_never_more_than_a_bad_record(payloads: list[bytes]) -> None:
    schemas = MemoryRegistry()
    schemas.register("t", _AVRO.schema_of(_COLUMNS, "", unwrapped=False))
    found = value_decoder(Format.AVRO, _COLUMNS, _COLUMNS, schemas=schemas).decode(payloads)
    assert all(len(c) == len(payloads) for c in found.columns)
    for column in found.columns:
        column.validate(full=True)


def test_each_record_is_read_by_its_own_schema() -> None:
    schemas = MemoryRegistry()
    old = _record(("id", "int"), ("name", "string"))
    new = _record(("name", ["null", "string"]), ("more", {"type": "array", "items": "long"}),
                  ("id", ["null", "long"]))  # fmt: skip
    odd = _record(("id", "string"))
    for n, each in enumerate((old, new, odd), 1):
        schemas.put("t-value", _schema(each), n)
    columns = (Column("ID", BIGINT), Column("NAME", STRING))
    found = value_decoder(Format.AVRO, columns, columns, schemas=schemas).decode(
        [
            _bytes(old, {"id": 1, "name": "a"}, 1),
            _bytes(new, {"name": None, "more": [1, 2], "id": 2}, 2),
            _bytes(odd, {"id": "x"}, 3),
            _bytes(old, {"id": 4, "name": "d"}, 9),
            b"\1\0\0\0\1xx",
            b"\0\0",
            None,
            _bytes(old, {"id": 8, "name": "h"}, 1),
        ]
    )
    assert found.columns[0].to_pylist() == [1, 2, None, None, None, None, None, 8]
    assert found.columns[1].to_pylist() == ["a", None, None, None, None, None, None, "h"]
    assert set(found.bad) == {2, 3, 4, 5}
    assert "ID BIGINT" in found.bad[2]
    assert '"string"' in found.bad[2]
    assert found.bad[3] == "The schema registry has no schema with id 9."


def test_a_registry_that_is_away_stops_only_what_needs_it() -> None:
    schemas = AwayRegistry()
    written = _record(("id", "long"))
    schemas.put("t", _schema(written), 1)
    columns = (Column("ID", BIGINT),)
    decoder = value_decoder(Format.AVRO, columns, columns, schemas=schemas)
    assert decoder.decode([_bytes(written, {"id": 5})]).columns[0].to_pylist() == [5]
    with pytest.raises(RegistryUnavailable):
        decoder.decode([_bytes(written, {"id": 5}), _bytes(written, {"id": 6}, 2)])


@pytest.mark.parametrize(
    ("written", "value", "kind", "expected"),
    [
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", STRING, "B"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc", SqlType(Base.BYTES), b"abc"),
        (["string", "null", "long"], 7, BIGINT, 7),
        ("int", 7, STRING, "7"),
        ("float", 0.5, DOUBLE, 0.5),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1},
            Decimal("-1.5"),
            _DECIMAL,
            Decimal("-1.500"),
        ),
        (
            {"type": "map", "values": "int"},
            {"a": 1},
            SqlType(Base.MAP, element=BIGINT),
            [("a", 1)],
        ),
        (
            ["null", "int", "string"],
            "x",
            SqlType(Base.STRUCT, fields=(Column("INT", INTEGER), Column("STRING", STRING))),
            {"INT": None, "STRING": "x"},
        ),
    ],
)
def test_types(written: Any, value: Any, kind: SqlType, expected: Any) -> None:
    schemas = MemoryRegistry()
    record = _record(("v", written))
    schemas.register("t", _schema(record))
    columns = (Column("V", kind),)
    decoder = value_decoder(Format.AVRO, columns, columns, schemas=schemas)
    found = decoder.decode([_bytes(record, {"v": value})])
    assert not found.bad
    assert found.columns[0].to_pylist() == [expected]


def test_data_nested_without_end_are_a_bad_record() -> None:
    schemas = MemoryRegistry()
    record = _record(("id", "long"), ("next", ["null", "R"]))
    schemas.register("t", _schema(record))
    columns = (Column("ID", BIGINT),)
    deep = b"\0\0\0\0\1" + b"\2\2" * 10_000 + b"\2\0"
    shallow = b"\0\0\0\0\1" + b"\2\2" * 10 + b"\2\0"
    found = value_decoder(Format.AVRO, columns, columns, schemas=schemas).decode([deep, shallow])
    assert found.columns[0].to_pylist() == [None, 1]
    assert "nested" in found.bad[0]


def test_a_length_beyond_the_record_takes_no_memory() -> None:
    schemas = MemoryRegistry()
    record = _record(("v", {"type": "array", "items": "null"}), ("s", "string"))
    schemas.register("t", _schema(record))
    columns = (Column("S", STRING),)
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    found = value_decoder(Format.AVRO, columns, columns, schemas=schemas).decode(
        [b"\0\0\0\0\1" + huge + b"\0\0", b"\0\0\0\0\1\0" + huge, b"\0\0\0\0\1\0\2a"]
    )
    assert found.columns[0].to_pylist() == [None, None, "a"]
    assert set(found.bad) == {0, 1}


@pytest.mark.parametrize("text", ["{", '"nothing"', '{"type": "record"}', "[" * 100_000])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaRefused):
        _AVRO.columns_of(Schema(SchemaKind.AVRO, text), "", unwrapped=False, key=False)


def test_columns_are_inferred_as_ksqldb_does() -> None:
    written = _record(
        ("id", "int"),
        ("Name", ["null", "string"]),
        ("self", ["null", "R"]),
        ("tags", {"type": "array", "items": "string"}),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("one", ["int", "string"]),
    )
    found = _AVRO.columns_of(_schema(written), "", unwrapped=False, key=False)
    assert [str(c) for c in found] == [
        "ID INTEGER",
        "NAME STRING",
        "TAGS ARRAY<STRING>",
        "AT TIMESTAMP",
        "ONE STRUCT<INT INTEGER, STRING STRING>",
    ]


def test_a_struct_that_is_null_says_nothing_of_its_fields() -> None:
    """Not even of those that take no null: only a struct that is there has fields."""
    inner = {
        "type": "record", "name": "I", "fields": [
            {"name": "B", "type": {"type": "map", "values": "long"}},
            {"name": "C", "type": "string"},
        ],
    }  # fmt: skip
    schema = _schema(_record(("A", ["null", inner])))
    columns = _AVRO.columns_of(schema, "", unwrapped=False, key=False)
    rows = [None, {"B": [("k", 1)], "C": "c"}, None, {"B": [], "C": ""}]
    arrays = [pa.array(rows, columns[0].type.arrow())]
    payloads = _AVRO.encode(columns, arrays, DataSchema("t", schema, 7), unwrapped=False)
    assert [p[5:] for p in payloads if p] == [b"\0", b"\2\2\2k\2\0\2c", b"\0", b"\2\0\0"]
    arrays = [pa.array([{"B": None, "C": "c"}], columns[0].type.arrow())]
    with pytest.raises(SchemaRefused, match="A->B is NULL"):
        _AVRO.encode(columns, arrays, DataSchema("t", schema, 7), unwrapped=False)
