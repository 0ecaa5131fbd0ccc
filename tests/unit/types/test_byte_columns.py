"""Byte strings in columns are those that a loop makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.types.columns.byte_columns import anywhere, fixed, joined, tails

_numbers = st.integers(-(1 << 63), (1 << 63) - 1)
_rows = st.lists(st.tuples(st.binary(max_size=12), _numbers), max_size=30)


@given(_rows)
def test_parts_are_put_together_row_by_row(rows: list[tuple[bytes, int]]) -> None:
    names = pa.array([name for name, _ in rows], pa.binary())
    numbers = fixed(np.array([n for _, n in rows], ">i8"))
    wanted = [b"x" + name + n.to_bytes(8, "big", signed=True) for name, n in rows]
    assert joined(b"x", names, numbers) == wanted


@given(st.integers(0, 3), st.lists(st.binary(min_size=3, max_size=3)), st.integers(0, 5))
def test_so_are_those_of_one_length_also_of_a_slice(width: int, rows: list[bytes], at: int) -> None:
    rows = [row[:width] for row in rows]
    part = pa.array(rows, pa.binary())[at:]
    assert joined(part) == rows[at:]
    assert joined(b"", part, b"xy", part) == [row + b"xy" + row for row in rows[at:]]


@given(_rows, st.integers(0, 5))
def test_tails_are_the_last_bytes_also_of_a_slice(rows: list[tuple[bytes, int]], at: int) -> None:
    values = [name + n.to_bytes(8, "big", signed=True) for name, n in rows]
    found = tails(pa.array(values, pa.binary())[at:], ">i8")
    assert found.tolist() == [n for _, n in rows[at:]]


@given(st.binary(max_size=12))
def test_a_number_is_read_from_any_byte_on(data: bytes) -> None:
    found = anywhere(np.frombuffer(data, np.uint8), ">u4").tolist()
    assert found == [int.from_bytes(data[n : n + 4]) for n in range(len(data) - 3)]


def test_records_of_several_numbers_are_their_bytes() -> None:
    pairs = np.array([(1, 2), (3, 4)], np.dtype([("a", ">u2"), ("b", "u1")]))
    assert fixed(pairs).to_pylist() == [b"\0\1\2", b"\0\3\4"]
