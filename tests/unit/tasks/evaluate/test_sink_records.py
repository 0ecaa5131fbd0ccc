"""Sinks write their records as ksqlDB does: formats, single values, windows, timestamps."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.tasks.evaluate.java_doubles import java_double
from holdfast.tasks.evaluate.keys import split_windowed
from holdfast.tasks.evaluate.sink_records import SinkRecords
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
from holdfast.types.statements.topology import Format, Sink, TimestampSpec, WindowKind


def _sink(columns: list[Column], form: Format, **more: Any) -> SinkRecords:
    key = (Column("K", STRING),)
    return SinkRecords(Sink("S", "STREAM", "s", key, tuple(columns), Format.KAFKA, form, **more))


def _values(type_: SqlType, values: list[Any], form: Format, **more: Any) -> list[bytes | None]:
    made = _sink([Column("V", type_)], form, **more).values([pa.array(values, type_.arrow())])
    return list(made)


def test_a_single_value_stands_alone_and_null_is_no_record_value() -> None:
    assert _values(INTEGER, [7, None], Format.JSON, wrap_single=False) == [b"7", None]
    assert _values(INTEGER, [7, None], Format.JSON) == [b'{"V":7}', b'{"V":null}']
    assert _values(INTEGER, [7, None], Format.KAFKA) == [struct.pack(">i", 7), None]
    struct_type = SqlType(Base.STRUCT, fields=(Column("A", DOUBLE),))
    assert _values(struct_type, [{"A": 0.5}], Format.JSON, wrap_single=False) == [b'{"A":0.5}']


def test_numbers_that_json_has_not_are_text() -> None:
    found = _values(DOUBLE, [float("nan"), float("-inf"), None, 1.5], Format.JSON)
    assert found == [b'{"V":"NaN"}', b'{"V":"-Infinity"}', b'{"V":null}', b'{"V":1.5}']


def test_maps_with_other_keys_than_text() -> None:
    whole = SqlType(Base.MAP, element=STRING, key=INTEGER)
    assert _values(whole, [[(3, "c")]], Format.JSON) == [b'{"V":{"3":"c"}}']
    exact = SqlType(Base.MAP, element=BOOLEAN, key=SqlType(Base.DECIMAL, 4, 2))
    assert _values(exact, [[(Decimal("1.50"), True)]], Format.JSON) == [b'{"V":{"1.50":true}}']


def test_times_beyond_pythons_own_are_written_inside_others_too() -> None:
    parts = (Column("AT", SqlType(Base.TIMESTAMP)), Column("DAY", SqlType(Base.DATE)))
    kind = SqlType(Base.ARRAY, element=SqlType(Base.STRUCT, fields=parts))
    plain = pa.list_(pa.struct([("AT", pa.int64()), ("DAY", pa.int32())]))
    array = pa.array([[{"AT": 10**18 + 1999, "DAY": -(10**7)}]], plain).cast(kind.arrow())
    found = list(_sink([Column("V", kind)], Format.JSON).values([array]))
    assert found == [b'{"V":[{"AT":1000000000000001,"DAY":-10000000}]}']


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (["a", "b"], b"a|b"),
        ([None, None], b"|"),
        (["", ""], b'""|'),
        (["-1", "-1"], b'"-1"|-1'),
        (["a|b", 'say "x"'], b'"a|b"|"say ""x"""'),
        (["x ", "#y"], b'"x "|"#y"'),
        (["two\nlines", "a,b"], b'"two\nlines"|a,b'),
    ],
)
def test_delimited_rows_quote_as_java_does(row: list[str | None], line: bytes) -> None:
    columns = [Column("A", STRING), Column("B", STRING)]
    sink = _sink(columns, Format.DELIMITED, delimiter="|")
    assert sink.values([pa.array([v], pa.string()) for v in row]) == [line]


def test_delimited_numbers_are_written_as_java_writes_them() -> None:
    assert _values(DOUBLE, [1e10, 2.0, -0.25], Format.DELIMITED) == [b"1.0E10", b"2.0", b'"-0.25"']
    decimal = SqlType(Base.DECIMAL, 6, 3)
    assert _values(decimal, [Decimal("1.5")], Format.DELIMITED) == [b"1.500"]
    assert _values(BOOLEAN, [True], Format.DELIMITED) == [b"true"]
    assert _values(SqlType(Base.BYTES), [b"hi"], Format.DELIMITED) == [b"aGk="]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (123456.789, "123456.789"), (0.001, "0.001"),
        (0.0001, "1.0E-4"), (9999999.0, "9999999.0"), (1e7, "1.0E7"), (-1.25e-7, "-1.25E-7"),
        (1e22, "1.0E22"), (5e-324, "4.9E-324"), (-5e-324, "-4.9E-324"), (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
    ],
)  # fmt: skip
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_windows_stand_behind_keys() -> None:
    keys: list[bytes | None] = [b"k", None]
    time = _sink([Column("V", BIGINT)], Format.JSON, window=WindowKind.HOPPING, window_size_ms=10)
    written = time.windowed(keys, [5, 5], [15, 15])
    assert written[1] is None
    assert written[0] == b"k" + struct.pack(">q", 5)
    assert split_windowed(written[0], WindowKind.HOPPING, 10) == (b"k", 5, 15)
    session = _sink([Column("V", BIGINT)], Format.JSON, window=WindowKind.SESSION)
    written = session.windowed(keys, [5, 5], [8, 8])
    assert written[0] == b"k" + struct.pack(">qq", 8, 5)
    assert split_windowed(written[0], WindowKind.SESSION, 0) == (b"k", 5, 8)
    with pytest.raises(ValueError, match="a SESSION window alone takes 16"):
        split_windowed(bytes(15), WindowKind.SESSION, 0)
    plain = _sink([Column("V", BIGINT)], Format.JSON)
    assert plain.windowed(keys, [1, 1], [2, 2]) == keys


def test_timestamps_come_from_the_column_and_bad_ones_are_not_written() -> None:
    columns = [Column("AT", STRING)]
    spec = TimestampSpec("AT", "yyyy-MM-dd")
    sink = _sink(columns, Format.JSON, timestamp=spec)
    keys = [pa.array(["a", "b", "c"])]
    values = [pa.array(["1970-01-02", "never", None])]
    assert sink.times(keys, values, [False, False, True], [1, 2, 3]) == [86_400_000, -1, 3]
    assert _sink(columns, Format.JSON).times(keys, values, [False] * 3, [1, 2, 3]) == [1, 2, 3]


def test_a_key_column_may_be_the_timestamp() -> None:
    key = (Column("K", BIGINT),)
    value = (Column("V", BIGINT),)
    sink = SinkRecords(Sink("S", "STREAM", "s", key, value, timestamp=TimestampSpec("K")))
    arrays = [pa.array([4, -4])]
    assert sink.times(arrays, [pa.array([0, 0])], [False, False], [9, 9]) == [4, -1]


def test_keys_of_several_columns_in_their_delimiter() -> None:
    key = (Column("A", STRING), Column("B", BIGINT))
    sink = SinkRecords(
        Sink("S", "STREAM", "s", key, (), Format.DELIMITED, Format.JSON, key_delimiter=";")
    )
    arrays = [pa.array(["x,y", None, None]), pa.array([1, 2, None], pa.int64())]
    assert sink.keys(arrays) == [b"x,y;1", b";2", None]
