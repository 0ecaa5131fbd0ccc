"""Expected and actual records: what is the same, and what is told of a difference."""

from __future__ import annotations

import pytest

from holdfast.testing.cases import Spec, SpecWindow, WindowType
from holdfast.testing.compare import compare, same
from holdfast.testing.json_text import loads


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ("null", "null"),
        ("true", "true"),
        ("1", "1"),
        ("1", "1.0"),  # a whole number may be expected with a point
        ("2.50", "2.50"),
        ("1e-7", "1.0E-7"),
        ("10000000000.0", "1.0E10"),
        ("4.611686018427388E+18", "4.6116860184273879E+18"),  # one and the same DOUBLE
        ('"a"', '"a"'),
        ("2.50", '"2.50"'),  # a decimal may be expected as text
        ("[1, null]", "[1, null]"),
        ('{"A": 1, "B": {"C": []}}', '{"B": {"c": []}, "a": 1}'),
    ],
)
def test_same(actual: str, expected: str) -> None:
    assert same(loads(actual), loads(expected))


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ("null", "0"),
        ("0", "null"),
        ("1", "true"),
        ("true", "1"),
        ("2.0", "2"),
        ("2.5", "2.50"),
        ("2.5", "2.6"),
        ("4.611686018427388E+18", "4.61168601842738E+18"),
        ("1", '"1"'),
        ('"1"', "1"),
        ("[1]", "[1, 2]"),
        ("[1, 2]", "[2, 1]"),
        ('{"A": 1}', '{"A": 1, "B": null}'),
        ('{"a": 1}', '{"A": 1}'),
        ("[]", "{}"),
    ],
)
def test_not_the_same(actual: str, expected: str) -> None:
    assert not same(loads(actual), loads(expected))


def test_numbers_that_need_not_be_exact() -> None:
    assert same(loads("0.30000000000000004"), loads("0.3"), exact=False)
    assert not same(loads("0.3001"), loads("0.3"), exact=False)


def test_every_part_of_a_record_that_differs_is_named() -> None:
    window = SpecWindow(0, 10, WindowType.TIME)
    want = Spec("T", 1, {"A": 1}, 5, window, (("h", b"x"),))
    have = Spec("T", 2, {"A": 2}, 6, SpecWindow(0, 20, WindowType.TIME), ())
    (found,) = compare("T", [want], [have])
    assert found.what == ("key", "window", "value", "timestamp", "headers")
    assert (found.at, found.expected, found.actual) == (0, want, have)


def test_what_an_expected_record_leaves_out_may_be_anything() -> None:
    have = Spec("T", 1, 2, 99, SpecWindow(0, 10, WindowType.SESSION), (("h", b"x"),))
    assert compare("T", [Spec("T", 1, 2)], [have]) == []


def test_a_record_too_few_and_one_too_many() -> None:
    one, two = Spec("T", 1, 1), Spec("T", 2, 2)
    assert [d.what for d in compare("T", [one, two], [one])] == [("missing",)]
    assert [d.what for d in compare("T", [one], [one, two])] == [("not expected",)]


def test_the_time_of_an_insert_is_not_known_before() -> None:
    want, have = Spec("T", 1, 1, 0), Spec("T", 1, 1, 1_700_000_000_000)
    assert compare("T", [want], [have], now_is_zero=True) == []
    assert compare("T", [want], [have]) != []
