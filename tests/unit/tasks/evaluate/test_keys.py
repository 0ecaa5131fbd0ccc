"""The key layout: what Spark makes is what Python reads, and sinks get their own format."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from holdfast.tasks.evaluate.keys import (
    decode_keys,
    encode_keys,
    numbered,
    sink_keys,
    split_window,
    window_key,
)
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, Base, Column, SqlType
from holdfast.types.statements.topology import Format, NamedExpression, Sink
from tests.support.values.expressions import named
from tests.support.values.spark_keys import state_key_sql

DECIMAL = SqlType(Base.DECIMAL, 9, 2)
INNER = SqlType(Base.STRUCT, fields=(Column("C", DECIMAL), Column("T", SqlType(Base.TIMESTAMP))))
NESTED = SqlType(
    Base.STRUCT,
    fields=(
        Column("D", SqlType(Base.DATE)),
        Column("A", SqlType(Base.ARRAY, element=INNER)),
        Column("B", SqlType(Base.BYTES)),
    ),
)
NESTED_TEXT = (
    "named_struct('D', DATE'1960-02-29', 'A', array(named_struct('C', CAST(1.20 AS DECIMAL(9,2)), "
    "'T', TIMESTAMP'2013-01-01 05:15:00.000007'), NULL), 'B', X'00FF')"
)
NESTED_VALUE = {
    "D": dt.date(1960, 2, 29),
    "A": [
        {
            "C": decimal.Decimal("1.20"),
            "T": dt.datetime(2013, 1, 1, 5, 15, 0, 7, tzinfo=dt.UTC),
        },
        None,
    ],
    "B": b"\x00\xff",
}
CASES: list[tuple[list[SqlType], list[str], list[Any]]] = [
    ([STRING], ["'Dune'"], ["Dune"]),
    ([STRING], ["''"], [""]),
    ([STRING], ["'é✈'"], ["é✈"]),
    ([INTEGER], ["CAST(-7 AS INT)"], [-7]),
    ([BIGINT], ["CAST(5000000000 AS BIGINT)"], [5_000_000_000]),
    ([DOUBLE], ["CAST(1.5 AS DOUBLE)"], [1.5]),
    ([STRING, BIGINT], ["'a\"b'", "3L"], ['a"b', 3]),
    ([DECIMAL, STRING], ["CAST(1.20 AS DECIMAL(9,2))", "'x'"], [decimal.Decimal("1.20"), "x"]),
    ([SqlType(Base.DATE)], ["DATE'1960-02-29'"], [dt.date(1960, 2, 29)]),
    (
        [SqlType(Base.TIMESTAMP)],
        ["TIMESTAMP'2013-01-01 05:15:00.000007'"],
        [dt.datetime(2013, 1, 1, 5, 15, 0, 7, tzinfo=dt.UTC)],
    ),
    ([SqlType(Base.BYTES)], ["X'00FF'"], [b"\x00\xff"]),
    ([SqlType(Base.BOOLEAN)], ["true"], [True]),
    ([DOUBLE], ["double('-Infinity')"], [-math.inf]),
    ([NESTED], [NESTED_TEXT], [NESTED_VALUE]),
    (
        [NESTED],
        [f"CAST(named_struct('D', DATE'1970-01-01', 'A', NULL, 'B', NULL) AS {NESTED.spark()})"],
        [{"D": dt.date(1970, 1, 1), "A": None, "B": None}],
    ),
]


def _keys(types: list[SqlType], texts: list[str]) -> list[NamedExpression]:
    return [named(t, Column(f"K{i}", k)) for i, (k, t) in enumerate(zip(types, texts, strict=True))]


@pytest.mark.parametrize(("types", "texts", "values"), CASES)
def test_state_keys_made_by_spark_decode_to_their_values(
    spark: SparkSession, types: list[SqlType], texts: list[str], values: list[Any]
) -> None:
    keys = _keys(types, texts)
    row = spark.range(1).selectExpr(f"{state_key_sql(keys)} AS k").collect()[0]
    arrays = decode_keys([bytes(row.k)], [k.column for k in keys])
    assert [a.to_pylist()[0] for a in arrays] == values


@pytest.mark.parametrize("texts", [["CAST(NULL AS STRING)"], ["'a'", "CAST(NULL AS STRING)"]])
def test_a_null_part_means_no_state_key(spark: SparkSession, texts: list[str]) -> None:
    keys = _keys([STRING] * len(texts), texts)
    assert spark.range(1).selectExpr(f"{state_key_sql(keys)} AS k").collect()[0].k is None


def test_windowed_keys_are_the_key_and_eight_bytes_of_start() -> None:
    key = window_key(b"EWR", 3_600_000)
    assert key == b"EWR" + struct.pack(">q", 3_600_000)
    assert split_window([key, window_key(b"", 0)]) == ([b"EWR", b""], [3_600_000, 0])


def test_kafka_format_keys_of_strings_and_integers_are_the_state_keys() -> None:
    column = Column("K", BIGINT)
    state = [struct.pack(">q", 12)]
    arrays = decode_keys(state, [column])
    sink = Sink("T", "TABLE", "t", (column,), (), key_format=Format.KAFKA)
    assert sink_keys(state, arrays, sink) == state


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Format.JSON, [b'{"A":"x,y","B":1}', b'{"A":null,"B":2}']),
        (Format.DELIMITED, [b'"x,y",1', b",2"]),
    ],
)
def test_several_key_columns(form: Format, expected: list[bytes]) -> None:
    columns = [Column("A", STRING), Column("B", BIGINT)]
    arrays = [pa.array(["x,y", None]), pa.array([1, 2])]
    assert encode_keys(columns, arrays, form) == expected


def test_single_keys_in_other_formats() -> None:
    doubles = [pa.array([1.5])]
    assert encode_keys([Column("K", DOUBLE)], doubles, Format.KAFKA) == [struct.pack(">d", 1.5)]
    assert encode_keys([Column("K", STRING)], [pa.array(["a"])], Format.JSON) == [b'"a"']


def test_times_beyond_pythons_own_are_written_all_the_same() -> None:
    days = pa.array([10_000_000, None], pa.int32()).cast(pa.date32())
    micros = pa.array([10**18, None], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    columns = [Column("D", SqlType(Base.DATE)), Column("T", SqlType(Base.TIMESTAMP))]
    assert encode_keys(columns, [days, micros], Format.JSON) == [
        b'{"D":10000000,"T":1000000000000000}',
        None,
    ]
    state = [b'{"k0":10000000,"k1":1000000000000000000}']
    decoded = decode_keys(state, columns)
    assert [
        a.cast(k).to_pylist() for a, k in zip(decoded, [pa.int32(), pa.int64()], strict=True)
    ] == [
        [10_000_000],
        [10**18],
    ]


_BYTES = st.sampled_from([b"\0", b"\1", b"\x7f", b"\x80", b"\xff"])
_OF_ONE_LENGTH = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.lists(_BYTES, min_size=n, max_size=n).map(b"".join))
)


@given(st.lists(st.lists(_BYTES, max_size=3).map(b"".join)) | _OF_ONE_LENGTH)
def test_different_keys_are_numbered_by_length_and_then_bytewise(keys: list[bytes]) -> None:
    different, numbers = numbered(pa.array(keys, pa.binary()))
    assert different.to_pylist() == sorted(set(keys), key=lambda key: (len(key), key))
    assert different.take(pa.array(numbers)).to_pylist() == keys
