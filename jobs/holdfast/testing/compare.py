"""Compares expected and actual records as ksqlDB's test runner does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import zip_longest
from typing import Any

from holdfast.testing.cases import Spec

__all__ = ["Difference", "compare", "has_words", "same"]

_TOLERANCE = Decimal("0.000001")  # of an inexact comparison
_PLAIN = (Decimal("0.001"), Decimal(10_000_000))  # the range that Java writes without an exponent
_BESIDE = re.compile(
    r"\bline:? \d+(?:, col(?:umn)?:? |:)\d+:\s*|see https?://\S+ for more info\."
    r"|what to do:|likely cause:"
)
_DIGITS = 15  # with more digits, Java may write a DOUBLE with more of them than it needs


@dataclass(frozen=True)
class Difference:
    """One record that differs from the expected one.

    Attributes:
        at: its place in the topic, from 0.
        expected: None: no record was expected.
        actual: None: the record is missing.
        what: which of key, value, timestamp, window, headers differ.
    """

    topic: str
    at: int
    expected: Spec | None
    actual: Spec | None
    what: tuple[str, ...]


def compare(
    topic: str,
    expected: Sequence[Spec],
    actual: Sequence[Spec],
    *,
    exact: bool = True,
    now_is_zero: bool = False,
) -> list[Difference]:
    """The differences of one topic, record by record in order.

    Args:
        exact: numbers must have the same scale; otherwise they may differ by a millionth.
        now_is_zero: an expected timestamp of 0 stands for the time of an INSERT.
    """
    found = []
    for at, (want, have) in enumerate(zip_longest(expected, actual)):
        if want is None:
            what: tuple[str, ...] = ("not expected",)
        elif have is None:
            what = ("missing",)
        else:
            what = tuple(_different(want, have, exact=exact, now_is_zero=now_is_zero))
        if what:
            found.append(Difference(topic, at, want, have, what))
    return found


def _different(want: Spec, have: Spec, *, exact: bool, now_is_zero: bool) -> list[str]:
    what = []
    if not same(have.key, want.key, exact=exact):
        what.append("key")
    if want.window is not None and want.window != have.window:
        what.append("window")
    if not same(have.value, want.value, exact=exact):
        what.append("value")
    timeless = want.timestamp is None or (now_is_zero and want.timestamp == 0)
    if not timeless and want.timestamp != have.timestamp:
        what.append("timestamp")
    if want.headers is not None and want.headers != (have.headers or ()):
        what.append("headers")
    return what


def same(actual: Any, expected: Any, *, exact: bool = True) -> bool:
    """Whether decoded JSON is the expected one.  Field names match in upper case, too."""
    if expected is None or isinstance(expected, bool):
        return actual is expected
    if isinstance(expected, dict):
        return _same_fields(actual, expected, exact=exact)
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(expected)
            and all(same(a, e, exact=exact) for a, e in zip(actual, expected, strict=True))
        )
    if isinstance(actual, bool):
        return False
    if isinstance(expected, str):
        return actual == expected or (isinstance(actual, Decimal) and _is_text_of(actual, expected))
    return isinstance(actual, int | Decimal) and _same_number(actual, expected, exact=exact)


def _is_text_of(number: Decimal, text: str) -> bool:
    """Whether a text, in which a decimal may have leading zeros, is this number."""
    try:
        return number == Decimal(text)
    except InvalidOperation:
        return False


def _same_fields(actual: Any, expected: dict[str, Any], *, exact: bool) -> bool:
    if not isinstance(actual, dict) or len(actual) != len(expected):
        return False
    for name, value in expected.items():
        found = actual.get(name)
        if found is None:
            found = actual.get(name.upper())
        if not same(found, value, exact=exact):
            return False
    return True


def _same_number(actual: int | Decimal, expected: int | Decimal, *, exact: bool) -> bool:
    if not exact:
        return abs(Decimal(actual) - Decimal(expected)) < _TOLERANCE
    if isinstance(actual, int):
        return actual == expected
    if isinstance(expected, int):
        # 2 is not 2.0, which has a scale.
        return actual == expected and (_scale(actual) <= 0 or not _plain(actual))
    if len(expected.as_tuple().digits) > _DIGITS or not _plain(actual):
        return actual == expected or float(actual) == float(expected)
    return actual == expected and _scale(actual) == _scale(expected)


def _plain(number: Decimal) -> bool:
    """Whether it has only one spelling as a DOUBLE; others have 1.0E10, 1e+10 and more."""
    return not number or _PLAIN[0] <= abs(number) < _PLAIN[1]


def _scale(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def has_words(message: str, expected: str) -> bool:
    """Whether a message has the expected words.

    Ignores positions in the text, line breaks and case, ksqlDB's links, and Holdfast's labels.
    """
    return _words(expected) in _words(message)


def _words(message: str) -> str:
    return " ".join(_BESIDE.sub("", message.lower()).split())
