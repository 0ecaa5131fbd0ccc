"""Hypothesis' columns of every type that a key may have, with values at which writers differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from holdfast.tasks.evaluate.as_numbers import from_numbers
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

__all__ = ["KeyRows", "key_rows"]

_DOUBLES = (
    0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1e-323, 2e23, -8.41e21, 1e7, 9999999.999,
    1e-3, 1e-4, 2.0**63, 2.2000000000000005e25, 2.2250738585072014e-308, 1.7976931348623157e308,
)  # fmt: skip
_TEXTS = ("", '"\\/\b\f\n\r\t\x00\x1f\x7f\x80', "ä€😀\u2028\u2029 </script>", "\ufffe\uffff\ufeff")
_NAMES = st.sampled_from(["A", "a", "B", "k0", "ä€", 'x"y', "back\\slash", "with space", "d.o.t"])
_NUMBERS: dict[Base, st.SearchStrategy[Any]] = {
    Base.BOOLEAN: st.booleans(),
    Base.INTEGER: st.integers(-(2**31), 2**31 - 1),
    Base.BIGINT: st.integers(-(2**63), 2**63 - 1),
    Base.DOUBLE: st.sampled_from(_DOUBLES) | st.floats() | st.floats(width=16),
    Base.STRING: st.sampled_from(_TEXTS) | st.text(st.characters(codec="utf-8"), max_size=9),
    Base.BYTES: st.binary(max_size=8) | st.integers(55, 60).map(bytes) | st.just(b"\xff\0" * 90),
    Base.DATE: st.integers(-(2**31), 2**31 - 1),
    Base.TIME: st.integers(0, 86_399_999),
    Base.TIMESTAMP: st.integers(-(2**63), 2**63 - 1),
}
_DECIMALS = st.integers(1, 38).flatmap(
    lambda p: st.integers(0, p).map(lambda s: SqlType(Base.DECIMAL, p, s))
)
_FLAT = st.sampled_from([
    BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING,
    *map(SqlType, (Base.BYTES, Base.DATE, Base.TIME, Base.TIMESTAMP)),
]) | _DECIMALS  # fmt: skip


def _nested(inner: st.SearchStrategy[SqlType]) -> st.SearchStrategy[SqlType]:
    fields = st.lists(
        st.builds(Column, _NAMES, inner), min_size=1, max_size=3, unique_by=lambda c: c.name
    )
    arrays = inner.map(lambda t: SqlType(Base.ARRAY, element=t))
    return arrays | fields.map(lambda f: SqlType(Base.STRUCT, fields=tuple(f)))


_KINDS = _FLAT | st.recursive(_FLAT, _nested, max_leaves=5)


def _values(kind: SqlType) -> st.SearchStrategy[Any]:
    """Values as `from_numbers` takes them, None among them at any depth."""
    return st.none() | _present(kind)


def _present(kind: SqlType) -> st.SearchStrategy[Any]:
    if kind.base is Base.ARRAY and kind.element is not None:
        return st.lists(_values(kind.element), max_size=3)
    if kind.base is Base.STRUCT:
        return st.fixed_dictionaries({f.name: _values(f.type) for f in kind.fields})
    if kind.base is Base.DECIMAL:
        limit = 10**kind.precision - 1
        units = st.integers(-limit, limit) | st.integers(-min(9, limit), min(9, limit))
        return units.map(lambda n: _decimal(n, kind.scale))
    return _NUMBERS[kind.base]


def _decimal(units: int, scale: int) -> Decimal:
    with localcontext() as context:
        context.prec = 38
        return Decimal(units).scaleb(-scale)


@dataclass(frozen=True)
class KeyRows:
    """Key columns, and whether rows with only some of them have a key."""

    kinds: Sequence[SqlType]
    arrays: Sequence[pa.Array]
    parts_may_miss: bool

    @property
    def columns(self) -> list[Column]:
        return [Column(f"C{i}", kind) for i, kind in enumerate(self.kinds)]


@st.composite
def key_rows(draw: st.DrawFn) -> KeyRows:
    """Rows of one to four key columns of any types."""
    kinds = draw(st.lists(_KINDS, min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*map(_values, kinds)), min_size=1, max_size=12))
    arrays = [
        from_numbers(values, kind.arrow())
        for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)
    ]
    return KeyRows(kinds, arrays, draw(st.booleans()))
