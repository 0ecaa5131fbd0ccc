"""Doubles as text: `java_doubles/JavaDoubles.java` made the golden values, on Java 17."""

from __future__ import annotations

import struct
from decimal import Decimal
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.evaluate.java_doubles import java_double

_GOLDEN = Path(__file__).with_name("java_doubles") / "golden.tsv"


def test_doubles_are_printed_as_java_17_prints_them() -> None:
    lines = [line.split("\t") for line in _GOLDEN.read_text(encoding="utf-8").splitlines()]
    values: list[float] = [struct.unpack(">d", bytes.fromhex(bits))[0] for bits, _ in lines]
    assert [java_double(v) for v in values] == [text for _, text in lines]
    # Among them are those at which Java 17 differs from Java 19 and Python.
    finite = [v for v in values if v - v == 0]
    assert sum(Decimal(java_double(v)) != Decimal(repr(v)) for v in finite) >= 80


@given(st.floats(allow_nan=False))
def test_what_is_printed_is_read_as_the_same_double(value: float) -> None:
    assert struct.pack(">d", float(java_double(value))) == struct.pack(">d", value)
