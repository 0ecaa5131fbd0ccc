"""When a recomputed value and the one in the table are the same."""

from __future__ import annotations

import math

import pytest

from holdfast.judge.values import Match, same


@pytest.mark.parametrize(
    ("expected", "actual"),
    [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (0.1 + 0.2, 0.3)],
)
def test_numbers_are_compared_as_json_writes_them(expected: float, actual: object) -> None:
    assert same(expected, actual)
    assert not same(expected, None)
    assert not same(1.0, "NaN")


def test_a_bag_may_hold_nulls_in_any_order() -> None:
    assert same([1, None, 2], [None, 2, 1], Match.BAG)
    assert not same([1, None, 2], [2, 2, 1], Match.BAG)


@pytest.mark.parametrize(
    ("expected", "near", "far"),
    [(0, (0, 1), (2, -2, None, 0.0, True)), (10_000, (9_100, 10_900), (8_900, 11_100, "10000"))],
)
def test_a_count_is_near_within_six_standard_deviations(
    expected: int, near: tuple[object, ...], far: tuple[object, ...]
) -> None:
    assert all(same(expected, actual, Match.NEAR_COUNT) for actual in near)
    assert not any(same(expected, actual, Match.NEAR_COUNT) for actual in far)


def test_a_quantile_lies_between_its_bounds_and_a_nan_above_all() -> None:
    assert same([1.0, 2.0], 1.5, Match.BETWEEN)
    assert same([1.0, 2.0, 3.0, 4.0], [1.0, 4.0], Match.BETWEEN)
    assert same([1.0, math.nan], "NaN", Match.BETWEEN)
    assert same([1.0, math.nan], "Infinity", Match.BETWEEN)
    assert same(["NaN", "NaN"], "NaN", Match.BETWEEN)
    assert same([-math.inf, 1.0], "-Infinity", Match.BETWEEN)
    assert same([1e300, 1e301], 1e290, Match.BETWEEN)
    assert same(None, None, Match.BETWEEN)
    for bounds, actual in (
        ([1.0, 2.0], 2.1), ([1.0, 2.0], "NaN"), ([1.0, 2.0], None), (None, 1.0),
        ([1.0, 2.0, 3.0, 4.0], [1.0]), ([math.nan, math.nan], 5.0), ([1.0, 2.0], "1.5"),
    ):  # fmt: skip
        assert not same(bounds, actual, Match.BETWEEN), (bounds, actual)


def _items(**counts: int) -> list[dict[str, object]]:
    return [{"ITEM": item, "COUNT": n} for item, n in counts.items()]


def test_the_most_frequent_are_there_with_counts_that_are_hardly_too_high() -> None:
    expected = [*_items(a=5_000, b=3_000, c=2_000, d=7), {"ITEM": None, "COUNT": 2}]
    assert same(expected, _items(a=5_000, b=3_000), Match.MOST_FREQUENT)
    assert same(expected, _items(a=5_034, b=3_034), Match.MOST_FREQUENT)
    assert same([{"ITEM": None, "COUNT": 2}], [], Match.MOST_FREQUENT)
    for wrong in (
        _items(a=4_999, b=3_000),  # too low
        _items(a=5_035, b=3_000),  # too high
        _items(a=5_000, c=2_000),  # b is left out
        _items(a=5_000),
        _items(b=3_000, a=5_000),
        _items(a=5_000, b=3_000, c=2_000),
        _items(a=5_000, x=3_000),
        [*_items(a=5_000), *_items(a=5_000)],
        None,
    ):
        assert not same(expected, wrong, Match.MOST_FREQUENT), wrong
