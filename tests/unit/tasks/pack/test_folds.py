from __future__ import annotations

import datetime as dt
import math
import random
import time
from collections import defaultdict
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.aggregates.registry import bind
from holdfast.tasks.pack.folds import Folding, Groups, first_rows, fold, grouped
from holdfast.types.columns.schema import DOUBLE, Column
from holdfast.types.statements.topology import AggregateCall
from tests.support.values.expressions import source_column

X = source_column(Column("X", DOUBLE)).expression
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


UTC = pa.timestamp("us", tz="UTC")
KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["é", "", "\U0001f3ac", "\uffff", "a"]),
    (pa.binary(), [b"\xff", b"", b"\x7f\x00", b"\x7f"]),
    (pa.decimal128(5, 2), [Decimal("-9.99"), Decimal("0.00"), Decimal("100.01")]),
    (pa.decimal128(5, -2), [Decimal(-900), Decimal(0), Decimal("99999E2")]),
    (pa.date32(), [dt.date(1950, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    (UTC, [dt.datetime(1950, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 2, 29, tzinfo=dt.UTC)]),
]
CODES = st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=12)


def _groups(codes: list[int]) -> tuple[Groups, list[list[int]]]:
    """The groups, and the rows of each."""
    groups = grouped(pa.array(codes))
    found: list[list[int]] = [[] for _ in range(groups.count)]
    for row, code in enumerate(groups.codes.tolist()):
        found[code].append(row)
    return groups, found


@given(st.sampled_from(KINDS), CODES, st.randoms(use_true_random=False))
def test_extremes_of_what_is_no_number(
    kind: tuple[pa.DataType, list[Any]], codes: list[int], chance: random.Random
) -> None:
    values = [chance.choice([None, *kind[1]]) for _ in codes]
    array = pa.array([None, *values, None], kind[0]).slice(1, len(values))
    groups, rows = _groups(codes)
    known = [[v for v in map(values.__getitem__, each) if v is not None] for each in rows]

    def order(value: Any) -> Any:
        return value.encode() if isinstance(value, str) else value

    least, most = (fold(f, array, groups) for f in (Folding.MIN, Folding.MAX))
    assert least.type == most.type == kind[0]
    assert least.to_pylist() == [min(v, key=order, default=None) for v in known]
    assert most.to_pylist() == [max(v, key=order, default=None) for v in known]


def test_decimals_add_up_beyond_their_digits() -> None:
    most = 10**38 - 1
    wide = pa.array([Decimal(most), None, Decimal(most), None], pa.decimal128(38, 0)).cast(
        pa.decimal256(75, 0)
    )
    found = fold(Folding.ADD, wide, grouped(pa.array(["a", "b", "a", "b"])))
    assert (found.type, found.to_pylist()) == (wide.type, [2 * most, None])


DISTINCT: list[tuple[pa.DataType, list[Any]]] = [
    (pa.float64(), [0.0, -0.0, math.nan, math.inf, 1.5]),
    (pa.bool_(), [True, False]),
    (pa.int64(), [0, -(2**63), 2**63 - 1]),
    *KINDS,
]


def _shown(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value


@given(st.sampled_from(DISTINCT), CODES, st.randoms(use_true_random=False))
def test_distinct_values_are_in_order_of_arrival(
    kind: tuple[pa.DataType, list[Any]], codes: list[int], chance: random.Random
) -> None:
    lists = [[chance.choice(kind[1]) for _ in range(chance.randrange(4))] for _ in codes]
    array = pa.array([[kind[1][0]], *lists, []], pa.list_(kind[0])).slice(1, len(codes))
    groups, rows = _groups(codes)
    flat = [[_shown(value) for row in each for value in lists[row]] for each in rows]
    found = fold(Folding.DISTINCT, array, groups)
    found.validate(full=True)
    assert found.type == array.type
    shown = [list(map(_shown, each)) for each in found.to_pylist()]
    assert shown == (flat if groups.single else [list(dict.fromkeys(each)) for each in flat])


def test_the_many_nans_are_one_value() -> None:
    others = pa.array(np.array([0x7FF8 << 48, (0x7FF8 << 48) + 1, -1]).view(np.float64))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), others)
    (found,) = fold(Folding.DISTINCT, lists, grouped(pa.array([0, 0, 0]))).to_pylist()
    assert len(found) == 1


NESTED = pa.list_(pa.map_(pa.string(), pa.struct([("at", UTC), ("day", pa.date32())])))
ELEMENTS = [
    None,
    [],
    [("k", {"at": dt.datetime(2024, 2, 29, 1, tzinfo=dt.UTC), "day": None}), ("l", None)],
]


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.lists(st.sampled_from(ELEMENTS)))))
def test_lists_are_put_one_after_the_other(rows: list[tuple[int, list[Any]]]) -> None:
    lists = [each for _, each in rows]
    around = [[ELEMENTS[2]], *lists, [None]]
    array = pa.array(around, NESTED).slice(1, len(lists))
    groups, of = _groups([code for code, _ in rows])
    found = fold(Folding.LIST, array, groups)
    found.validate(full=True)
    assert found.type == NESTED
    assert found.to_pylist() == [[e for row in each for e in lists[row]] for each in of]


def test_a_list_that_is_null_is_empty() -> None:
    lists = pa.array([None, [1], None, [None]], pa.list_(pa.int64()))
    found = fold(Folding.LIST, lists, grouped(pa.array(["a", "b", "a", "b"])))
    assert found.to_pylist() == [[], [1, None]]


FLOATS = st.one_of(st.none(), st.sampled_from([0.1, -0.0, 1e9, 1e9 + 1, -3.5]))


@given(st.lists(st.tuples(st.sampled_from([0, 1]), FLOATS), min_size=1), st.integers(0, 9))
def test_moments_are_those_of_all_values(rows: list[tuple[int, float | None]], cut: int) -> None:
    groups, of = _groups([code for code, _ in rows])
    array = _moments([value for _, value in rows])
    # The first records are folded before they meet the others, as before a shuffle.
    early, _ = _groups([code for code, _ in rows[:cut]])
    parts = pa.concat_arrays([fold(Folding.MOMENTS, array[:cut], early), array[cut:]])
    firsts = [rows[i][0] for i in first_rows(early).tolist()]
    again = grouped(pa.array([*firsts, *(code for code, _ in rows[cut:])]))
    for found in (fold(Folding.MOMENTS, array, groups), fold(Folding.MOMENTS, parts, again)):
        for moments, each in zip(found.to_pylist(), of, strict=True):
            values = [v for v in (rows[row][1] for row in each) if v is not None]
            mean = math.fsum(values) / len(values) if values else 0.0
            squares = math.fsum((v - mean) ** 2 for v in values)
            assert moments["n"] == len(values)
            assert moments["total"] == pytest.approx(sum(values), rel=1e-12, abs=1e-6)
            if values:
                assert moments["mean"] == pytest.approx(mean, rel=1e-12)
            assert moments["squares"] == pytest.approx(squares, rel=1e-9, abs=1e-9)
            assert moments["squares"] == 0 or len(set(values)) > 1


def _moments(values: list[float | None]) -> pa.Array:
    call = AggregateCall("__a0", "STDDEV_SAMP", (X,), (), DOUBLE)
    (partial,) = bind(call).partials
    return partial.of([pa.array(values, pa.float64())], len(values))


def test_one_value_that_is_not_finite_leaves_no_distance() -> None:
    array = _moments([math.inf, 1.0, math.nan, 2.0, 5.0, 5.0])
    found = fold(Folding.MOMENTS, array, grouped(pa.array(["a", "a", "b", "b", "c", "c"])))
    assert [str(each["squares"].as_py()) for each in found] == ["nan", "nan", "0.0"]


def test_one_group_of_very_many_records_is_folded_in_columns() -> None:
    rows = 300_000
    codes = np.arange(rows) % 2
    groups = Groups(codes, 2)
    texts = pa.array(np.arange(rows)).cast(pa.string())
    lists = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1), pa.int32()), texts)
    started = time.perf_counter()
    found = fold(Folding.LIST, lists, groups)
    assert pc.list_value_length(found).to_pylist() == [rows // 2] * 2
    assert found[1].values[-1].as_py() == str(rows - 1)
    assert fold(Folding.MAX, texts, groups).to_pylist() == ["99998", "99999"]
    assert fold(Folding.ADD, pa.array(np.ones(rows)), groups).to_pylist() == [rows / 2] * 2
    assert time.perf_counter() - started < 5  # a tenth of a second if nobody else computes


def test_groups_need_a_column() -> None:
    with pytest.raises(ValueError, match="one column at least"):
        grouped()
