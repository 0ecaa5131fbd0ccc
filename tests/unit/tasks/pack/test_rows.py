"""Rows survive a round trip, absent rows are null, and foreign rows are refused."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import StoreCorrupted
from holdfast.tasks.pack.rows import RowCodec

UTC = pa.timestamp("us", tz="UTC")
MOMENT = dt.datetime(2013, 1, 1, 5, 15, 0, 7, tzinfo=dt.UTC)

COLUMNS = {
    "fixed": [
        pa.array([1, None, -3], pa.int64()),
        pa.array([1.5, None, float("inf")], pa.float64()),
        pa.array([True, False, None], pa.bool_()),
        pa.array([None, 7, 8], pa.int32()),
        pa.array([MOMENT, None, MOMENT], UTC),
        pa.array([dt.date(1960, 2, 29), None, dt.date(2013, 1, 1)], pa.date32()),
    ],
    "variable": [
        pa.array(["a", None, "é" * 300], pa.string()),
        pa.array([b"\x00", b"", None], pa.binary()),
        pa.array([[1.0, None], [], None], pa.list_(pa.float64())),
        pa.array([decimal.Decimal("1.20"), None, decimal.Decimal("-9.99")], pa.decimal128(9, 2)),
        pa.array([{"x": 1, "y": "b"}, None, {"x": None, "y": "c"}],
                 pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ],
}  # fmt: skip
COLUMNS["mixed"] = [COLUMNS["variable"][0], *COLUMNS["fixed"], *COLUMNS["variable"][1:]]


@pytest.mark.parametrize("kind", COLUMNS)
def test_round_trip_keeps_every_value_and_null(kind: str) -> None:
    columns = COLUMNS[kind]
    codec = RowCodec([c.type for c in columns])
    rows = codec.encode(np.array([10, 20, 30]), columns)
    rowtime, present, decoded = codec.decode(rows)
    assert rowtime.tolist() == [10, 20, 30]
    assert present.tolist() == [True, True, True]
    assert [c.to_pylist() for c in decoded] == [c.to_pylist() for c in columns]


_texts = st.one_of(
    st.none(), st.text(max_size=40), st.sampled_from(["x" * n for n in (31, 32, 255, 256, 5_000)])
)


@given(st.lists(st.tuples(st.integers(0, 9), _texts, _texts, st.booleans()), max_size=12))
def test_texts_in_columns_are_what_msgpack_makes_of_each_row(rows: list[Any]) -> None:
    types = [pa.string(), pa.int64(), pa.string()]
    order = zip((1, 0, 2), types, strict=True)
    columns = [pa.array([row[n] for row in rows], kind) for n, kind in order]
    codec = RowCodec(types)
    encoded = codec.encode(np.arange(len(rows)), columns)
    width = len(RowCodec([pa.int64()]).encode(np.array([0]), [pa.array([0])])[0])
    assert [msgpack.unpackb(e[width:]) for e in encoded] == [[a, b] for _, a, b, _ in rows]
    assert [e[width:] for e in encoded] == [msgpack.packb((a, b)) for _, a, b, _ in rows]
    stored = [e if row[3] else None for e, row in zip(encoded, rows, strict=True)]
    _, present, decoded = codec.decode(stored)
    assert present.tolist() == [row[3] for row in rows]
    there = [[a, n, b] if kept else [None] * 3 for n, a, b, kept in rows]
    assert [list(row) for row in zip(*(c.to_pylist() for c in decoded), strict=True)] == there
    for column in decoded:
        column.validate(full=True)


def test_times_beyond_pythons_own_are_kept_inside_others_too() -> None:
    kind = pa.list_(pa.struct([("at", UTC), ("day", pa.date32())]))
    plain = pa.list_(pa.struct([("at", pa.int64()), ("day", pa.int32())]))
    far = pa.array([[{"at": 10**18, "day": 10**7}, None], None], plain)
    by_time = pa.array([[(10**18, -(10**7))], []], pa.map_(pa.int64(), pa.int32()))
    columns = [far.cast(kind), by_time.cast(pa.map_(UTC, pa.date32()))]
    codec = RowCodec([c.type for c in columns])
    _, _, decoded = codec.decode(codec.encode(np.array([1, 2]), columns))
    assert [c.type for c in decoded] == [c.type for c in columns]
    assert decoded[0].cast(plain).to_pylist() == far.to_pylist()
    assert decoded[1].cast(by_time.type).to_pylist() == by_time.to_pylist()


def test_absent_rows_are_null_in_every_column() -> None:
    codec = RowCodec([pa.int64(), pa.string()])
    row = codec.encode(np.array([5]), [pa.array([1]), pa.array(["x"])])[0]
    _, present, columns = codec.decode([None, row, None])
    assert present.tolist() == [False, True, False]
    assert [c.to_pylist() for c in columns] == [[None, 1, None], [None, "x", None]]


def test_no_rows_is_fine() -> None:
    rowtime, present, columns = RowCodec([pa.int64()]).decode([])
    assert (len(rowtime), len(present), len(columns[0])) == (0, 0, 0)


def test_more_fixed_columns_than_the_null_mask_holds() -> None:
    columns = [pa.array([i, None]) for i in range(70)]
    codec = RowCodec([c.type for c in columns])
    _, _, decoded = codec.decode(codec.encode(np.array([1, 2]), columns))
    assert [c.to_pylist() for c in decoded] == [[i, None] for i in range(70)]


def test_a_row_of_another_table_is_refused() -> None:
    wide = RowCodec([pa.int64(), pa.int64()])
    rows = wide.encode(np.array([1]), [pa.array([1]), pa.array([2])])
    with pytest.raises(StoreCorrupted, match="does not have the layout"):
        RowCodec([pa.int64()]).decode(rows)


def test_a_row_of_another_version_is_refused() -> None:
    codec = RowCodec([pa.int64()])
    row = codec.encode(np.array([1]), [pa.array([1])])[0]
    with pytest.raises(StoreCorrupted, match="row version 9"):
        codec.decode([b"\x09" + row[1:]])
