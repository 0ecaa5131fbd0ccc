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
