from __future__ import annotations

import math
from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.pack.folds import Fold, Folding, Groups, first_rows, fold, grouped, of_record
from holdfast.types.schema import INTEGER, Column
from tests.support.expressions import spark_column

NUMBERS = st.one_of(st.none(), st.integers(-(2**40), 2**40))


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2), NUMBERS)))
def test_folds_equal_a_loop_over_the_rows(rows: list[tuple[str | None, int, int | None]]) -> None:
    keys = pa.array([r[0] for r in rows], pa.string())
    windows = pa.array([r[1] for r in rows], pa.int64())
    values = pa.array([r[2] for r in rows], pa.int64())
    groups = grouped(keys, windows)
    expected: dict[tuple[str | None, int], list[int]] = defaultdict(list)
    for key, window, value in rows:
        expected[key, window] += [] if value is None else [value]
    firsts = first_rows(groups).tolist()
    assert [rows[i][:2] for i in firsts] == list(expected)
    known = expected.values()
    assert fold(Folding.ADD, values, groups).to_pylist() == [sum(v) if v else None for v in known]
    assert fold(Folding.MIN, values, groups).to_pylist() == [min(v, default=None) for v in known]
    assert fold(Folding.MAX, values, groups).to_pylist() == [max(v, default=None) for v in known]


def test_whole_numbers_wrap_as_spark_s_do() -> None:
    groups = Groups(grouped(pa.array([1, 1])).codes, 1)
    assert fold(Folding.ADD, pa.array([2**63 - 1, 1]), groups).to_pylist() == [-(2**63)]


@pytest.mark.parametrize(
    ("folding", "values", "expected"),
    [
        (Folding.MAX, [1.0, math.nan], math.nan),
        (Folding.MIN, [1.0, math.nan], 1.0),
        (Folding.MIN, [math.nan, math.nan], math.nan),
        (Folding.ADD, [0.1, 0.2], 0.1 + 0.2),
        (Folding.MAX, [None, -math.inf], -math.inf),
        (Folding.MIN, [None, None], None),
    ],
)
def test_a_nan_is_the_largest_number(
    folding: Folding, values: list[float | None], expected: float | None
) -> None:
    found = fold(folding, pa.array(values, pa.float64()), grouped(pa.array([0, 0]))).to_pylist()
    assert found == pytest.approx([expected], nan_ok=True)


X = spark_column(Column("X", INTEGER)).expression


def test_a_record_alone_is_a_partial_too() -> None:
    argument = pa.array([1, None, 3], pa.int32())
    counted = Fold(Folding.ADD, X, counts=True)
    assert of_record(counted, argument, pa.int64(), 3).to_pylist() == [1, 0, 1]
    assert of_record(counted, None, pa.int64(), 3).to_pylist() == [1, 1, 1]
    summed = of_record(Fold(Folding.ADD, X), argument, pa.int64(), 3)
    assert (summed.type, summed.to_pylist()) == (pa.int64(), [1, None, 3])


def test_groups_need_a_column() -> None:
    with pytest.raises(ValueError, match="one column at least"):
        grouped()
