from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.types.columns import pieces as lazy
from holdfast.types.columns.pieces import Lazy, as_array, taken

KINDS = {pa.binary(): st.binary(max_size=3), pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1)}
ENDS = st.none() | st.integers(-12, 12)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "PIECE", 3)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(st.data(), st.slices(12), st.booleans())
def test_a_lazy_column_is_read_as_the_list_of_its_values(
    kind: pa.DataType, data: st.DataObject, at: slice, some_are_null: bool
) -> None:
    value = KINDS[kind] | st.none() if some_are_null else KINDS[kind]
    values = data.draw(st.lists(value, min_size=12, max_size=12))
    column: Lazy[object] = Lazy(pa.array([*values, None], kind).slice(0, 12))
    assert list(column) == values
    assert column[at] == values[at]
    assert (column[0], column[-1]) == (values[0], values[-1])
    assert (None in column, values[0] in column) == (None in values, True)
    assert len(column) == 12
    with pytest.raises(IndexError):
        column[12]


def test_an_empty_column_has_no_values() -> None:
    column: Lazy[bytes] = Lazy(pa.array([], pa.binary()))
    assert (list(column), column[:5], len(column), None in column) == ([], [], 0, False)


@pytest.mark.parametrize("column", [[5, 6, 7], Lazy(pa.array([5, 6, 7]))], ids=["list", "lazy"])
def test_rows_are_taken_from_either_kind(column: list[int] | Lazy[int]) -> None:
    assert list(taken(column, np.array([2, 0, 2]))) == [7, 5, 7]
    assert as_array(column, pa.int64()).to_pylist() == [5, 6, 7]
