"""Rows of a changelog read by the judge: what the engine writes, by its documented layout."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.judge.read.changelog_rows import row_heads
from holdfast.judge.values import RowHead
from holdfast.sql import compile_text
from holdfast.tasks.pack.rows import RowCodec
from holdfast.types.topology import AggregateStep, Query

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
    rows = [(b"a", b"\x02" + bytes(24)), (b"b", b"\x01")]
    assert row_heads(rows, asked.sink.key_columns, asked.step) == {("a",): None, ("b",): None}
    assert read(query("day"), b'{"k0":1}') is None
