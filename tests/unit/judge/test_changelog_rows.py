"""Rows of a changelog read by the judge: what the engine writes, by its documented layout."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.judge.read.changelog_rows import element_counts, element_of, row_heads
from holdfast.judge.values import RowHead
from holdfast.sql import compile_text
from holdfast.tasks.pack.rows import RowCodec
from holdfast.types.statements.topology import AggregateStep, Query

SOURCE = """
CREATE STREAM s (name VARCHAR, number INT, big BIGINT, day DATE)
  WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);
"""
ROWS = RowCodec([pa.int64(), pa.float64()]).encode(
    np.array([70, 90]), [pa.array([2, None], pa.int64()), pa.array([1.5, 2.5])]
)


def query(keys: str, aggregates: str = "COUNT(*) AS n", window: str = "") -> Query:
    select = f"SELECT {keys}, {aggregates} FROM s {window} GROUP BY {keys}"
    text = f"CREATE TABLE t WITH (KEY_FORMAT = 'JSON') AS {select}"
    return compile_text(f"{SOURCE} {text} EMIT CHANGES;").queries[0]


def read(asked: Query, *keys: bytes) -> Any:
    assert isinstance(asked.step, AggregateStep)
    return row_heads(zip(keys, ROWS, strict=False), asked.sink.key_columns, asked.step)


def test_the_engine_s_own_rows_are_understood() -> None:
    assert read(query("name"), b"a", "é".encode()) == {
        ("a",): RowHead(70, 2),
        ("é",): RowHead(90, 0),
    }


@pytest.mark.parametrize(
    ("keys", "state_key", "key"),
    [
        ("number", struct.pack(">i", -3), (-3,)),
        ("big", struct.pack(">q", 2**40), (2**40,)),
        ("name, number", b'{"k0":"a","k1":5}', ("a", 5)),
    ],
)
def test_keys_of_other_types(keys: str, state_key: bytes, key: tuple[Any, ...]) -> None:
    assert read(query(keys), state_key) == {key: RowHead(70, 2)}


def test_a_window_start_ends_the_key() -> None:
    window = "WINDOW TUMBLING (SIZE 1 HOUR)"
    assert read(query("name", window=window), b"a" + struct.pack(">q", 3_600_000)) == {
        ("a", 3_600_000): RowHead(70, 2)
    }


def test_the_count_is_read_only_where_it_comes_first() -> None:
    assert read(query("name", "AVG(big) AS mean, COUNT(*) AS n"), b"a") == {
        ("a",): RowHead(70, None)
    }
    assert read(query("name", "COUNT(big) AS n"), b"a") == {("a",): RowHead(70, None)}


def test_other_layouts_and_other_keys_are_not_read() -> None:
    asked = query("name")
    assert isinstance(asked.step, AggregateStep)
    rows = [(b"a", b"\x03" + bytes(24)), (b"b", b"\x01")]
    assert row_heads(rows, asked.sink.key_columns, asked.step) == {("a",): None, ("b",): None}
    assert read(query("day"), b'{"k0":1}') is None


def test_distinct_values_that_are_records_are_counted_by_the_column_they_make() -> None:
    asked = query(
        "name", "COUNT(*) AS n, COUNT_DISTINCT(big) AS kinds, COUNT_DISTINCT(day) + 1 AS d"
    )
    assert isinstance(asked.step, AggregateStep)
    rows = [(b"a", b"\x02" + bytes(32)), (b"b", b"\x02" + bytes(32)), (b"c", b"\x01"), (b"d", b"")]
    made = [(b"a", 1, b"x"), (b"a", 1, b""), (b"a", 2, b"x"), (b"", 1, b"")]
    names = [
        b"\x02" + struct.pack(">I", len(key)) + key + struct.pack(">H", n) + value
        for key, n, value in made
    ]
    assert [element_of(name) for name in names] == [(b"a", 1), (b"a", 1), (b"a", 2), (b"", 1)]
    counts = Counter(map(element_of, names))
    found = element_counts(rows, counts, asked.sink.key_columns, asked.step)
    assert found == {("a",): {"KINDS": 2}, ("b",): {"KINDS": 0}}
