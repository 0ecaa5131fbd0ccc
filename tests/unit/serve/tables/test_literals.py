"""Keys from values: ranges in the order of bytes, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from holdfast.errors import Refused
from holdfast.serve.tables.literals import ordered_ranges, state_key
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

DECIMAL = SqlType(Base.DECIMAL, precision=6, scale=2)
ARRAY = SqlType(Base.ARRAY, element=STRING)


@pytest.mark.parametrize(
    ("kinds", "values", "expected"),
    [
        ([STRING], ["é"], "é".encode()),
        ([INTEGER], [-2], b"\xff\xff\xff\xfe"),
        ([BIGINT], [1], b"\0\0\0\0\0\0\0\1"),
        ([BOOLEAN], [True], b'{"k0":true}'),
        ([DOUBLE], [1e10], b'{"k0":1.0E10}'),
        ([DOUBLE], [float("nan")], b'{"k0":"NaN"}'),
        ([DECIMAL], [Decimal("1.5")], b'{"k0":"1.50"}'),
        ([SqlType(Base.BYTES)], [b"\0\xff"], b'{"k0":"AP8="}'),
        ([SqlType(Base.DATE)], [dt.date(1970, 1, 3)], b'{"k0":2}'),
        ([ARRAY], [["a", None]], b'{"k0":["a",null]}'),
        ([STRING, BIGINT], ['a"\n/\x01', 7], b'{"k0":"a\\"\\n/\\u0001","k1":7}'),
    ],
)
def test_a_key_is_stored_as_the_shuffle_has_it(
    kinds: list[SqlType], values: list[Any], expected: bytes
) -> None:
    columns = [Column(f"C{i}", kind) for i, kind in enumerate(kinds)]
    assert state_key(columns, values) == expected


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (INTEGER, 1 << 31, "not of the type INTEGER"),
        (BIGINT, "x", "not of the type BIGINT"),
        (STRING, None, "NULL"),
    ],
)
def test_values_of_other_types_are_refused(kind: SqlType, value: Any, text: str) -> None:
    with pytest.raises(Refused, match=text):
        state_key([Column("C", kind)], [value])


def test_every_key_column_needs_a_value() -> None:
    with pytest.raises(Refused, match="has 2 columns, 1 values"):
        state_key([Column("A", STRING), Column("B", STRING)], ["x"])


@pytest.mark.parametrize("kind", [INTEGER, BIGINT])
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize(
    ("low", "high"), [(-3, 3), (1, 4), (-4, -2), (None, 0), (0, None), (4, 2), (None, None)]
)
def test_ranges_of_numbers_hold_those_between(
    kind: SqlType, windowed: bool, low: int | None, high: int | None
) -> None:
    columns, tail = [Column("C", kind)], b"\0" * 8 if windowed else b""
    ranges = ordered_ranges(columns, low, high, windowed=windowed)
    assert ranges is not None
    found = []
    for number in range(-6, 7):
        stored = state_key(columns, [number]) + tail
        if any(a <= stored and (b is None or stored < b) for a, b in ranges):
            found.append(number)
    lowest, highest = -6 if low is None else low, 6 if high is None else high
    assert found == list(range(lowest, highest + 1))


def test_ranges_of_text_hold_those_between() -> None:
    columns = [Column("C", STRING)]
    ranges = ordered_ranges(columns, "b", "d", windowed=False)
    assert ranges == [(b"b", b"d\0")]
    assert ordered_ranges(columns, None, None, windowed=False) == [(b"", None)]


def test_keys_that_are_not_in_order_have_no_ranges() -> None:
    assert ordered_ranges([Column("C", DOUBLE)], 1.0, 2.0, windowed=False) is None
    two = [Column("A", STRING), Column("B", STRING)]
    assert ordered_ranges(two, "a", "b", windowed=False) is None
