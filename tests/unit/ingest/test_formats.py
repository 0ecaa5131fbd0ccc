"""KAFKA, DELIMITED and NONE."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest

from holdfast.errors import Unsupported
from holdfast.ingest.formats import key_decoder, value_decoder
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
from holdfast.types.statements.topology import Format

KAFKA_CASES = [
    (STRING, [b"x", "é".encode(), b""], ["x", "é", ""]),
    (INTEGER, [struct.pack(">i", -5), struct.pack(">i", 2**31 - 1)], [-5, 2**31 - 1]),
    (BIGINT, [struct.pack(">q", -(2**63))], [-(2**63)]),
    (DOUBLE, [struct.pack(">d", 1.25)], [1.25]),
    (SqlType(Base.BYTES), [b"\xff"], [b"\xff"]),
]


@pytest.mark.parametrize(("type_", "payloads", "expected"), KAFKA_CASES)
def test_kafka_primitives(type_: SqlType, payloads: list[bytes], expected: list[object]) -> None:
    columns = [Column("K", type_)]
    found = key_decoder(Format.KAFKA, columns, columns).decode([None, *payloads])
    assert found.columns[0].to_pylist() == [None, *expected]
    assert found.columns[0].type == type_.arrow()
    assert not found.bad


def test_kafka_bytes_of_another_length_or_encoding_are_undecodable() -> None:
    columns = [Column("K", BIGINT)]
    found = key_decoder(Format.KAFKA, columns, columns).decode([b"", bytes(8), b"12345678x"])
    assert found.bad == {0: "0 bytes, but BIGINT takes 8", 2: "9 bytes, but BIGINT takes 8"}
    assert found.columns[0].to_pylist() == [None, 0, None]
    texts = [Column("K", STRING)]
    found = key_decoder(Format.KAFKA, texts, texts).decode([b"a", b"b\xff", None])
    assert found.bad == {1: "not valid UTF-8 at byte 1"}
    assert found.columns[0].to_pylist() == ["a", None, None]


def test_kafka_decodes_nothing_that_is_not_wanted() -> None:
    found = key_decoder(Format.KAFKA, [Column("K", BIGINT)], []).decode([b"not eight"])
    assert found.columns == ()
    assert not found.bad


def test_what_a_format_cannot_hold_is_refused() -> None:
    two = [Column("A", STRING), Column("B", STRING)]
    with pytest.raises(Unsupported, match="a single field, not 2"):
        key_decoder(Format.KAFKA, two, two)
    nested = [Column("A", SqlType(Base.ARRAY, element=STRING))]
    for format_ in (Format.KAFKA, Format.DELIMITED):
        with pytest.raises(Unsupported, match="format does not support type 'ARRAY', column A"):
            value_decoder(format_, nested, nested)


ROW = [
    Column("S", STRING),
    Column("B", BIGINT),
    Column("D", DOUBLE),
    Column("C", SqlType(Base.DECIMAL, 4, 2)),
    Column("T", BOOLEAN),
]


def test_delimited_fields_go_by_place() -> None:
    decoder = value_decoder(Format.DELIMITED, ROW, [ROW[3], ROW[0], ROW[1], ROW[4]])
    payloads = [b'"a ""x"", b",7,1.5,2.5,TRUE', b",,,,", None, "é,-1,1,0,no\r\n".encode()]
    found = decoder.decode(payloads)
    assert not found.bad
    assert [c.to_pylist() for c in found.columns] == [
        [Decimal("2.50"), None, None, Decimal(0)],
        ['a "x", b', None, None, "é"],
        [7, None, None, -1],
        [True, None, None, False],
    ]


def test_delimited_records_that_do_not_fit_are_undecodable() -> None:
    decoder = value_decoder(Format.DELIMITED, ROW, ROW)
    payloads = [b"a,b", b"", b"s,x,,,", b's,1,"2', b"\xff,1,1,1,1", b"s,1,2,100,true"]
    assert decoder.decode(payloads).bad == {
        0: "2 fields, but 5 columns are declared",
        1: "0 fields, but 5 columns are declared",
        2: "B: 'x' is not an integer",
        3: "not valid delimited text: unexpected end of data",
        4: "not valid UTF-8 at byte 0",
        5: "C: '100' has too many digits for DECIMAL(4, 2)",
    }


def test_none_has_nothing_to_decode() -> None:
    found = key_decoder(Format.NONE, [], []).decode([b"anything", None])
    assert found.columns == ()
    assert not found.bad


def test_json_keys_of_several_columns_are_an_object() -> None:
    columns = [Column("A", STRING), Column("B", BIGINT)]
    found = key_decoder(Format.JSON, columns, columns).decode([b'{"a":"x","B":2}', None, b"3"])
    assert [c.to_pylist() for c in found.columns] == [["x", None, None], [2, None, None]]
    assert list(found.bad) == [2]
