"""Common types of the judge: keys, rows, and equality of values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from typing import Any

__all__ = [
    "COLLECT_LIMIT",
    "EXAMPLES_MAX",
    "QUANTILE_ERROR",
    "Key",
    "Match",
    "OpenTransaction",
    "Row",
    "RowHead",
    "Untranslatable",
    "no_number",
    "readable",
    "same",
    "show_key",
    "unreadable",
]

Key = tuple[Any, ...]  # key columns in order, then the window start in ms when windowed
Row = Mapping[str, Any]  # value columns as their JSON form

EXAMPLES_MAX = 5
COLLECT_LIMIT = 1000  # ksqlDB keeps this many elements of COLLECT_LIST and COLLECT_SET
_RELATIVE, _ABSOLUTE = 1e-9, 1e-9  # for doubles: the order of a sum varies
# The documented errors of approximate aggregates: six standard deviations of a count, which one in
# 500 million counts exceeds; how far the share of a quantile may be off; the share of all values by
# which the count of one may be too high.
_COUNT_ERROR, QUANTILE_ERROR, _FREQUENCY_ERROR = 6 * 0.0163, 0.02, 3.5 / 1024
_DIGEST_MOST = 1e290  # finite values beyond count as that much


class Match(StrEnum):
    """How a recomputed value is compared with the table's."""

    EXACT = "exact"
    ANY_OF = "any of"  # `expected` lists every value that some legal order of records gives
    BAG = "bag"  # a list in any order, cut off at COLLECT_LIMIT
    NEAR_COUNT = "near count"  # APPROX_COUNT_DISTINCT: `expected` is exact
    BETWEEN = "between"  # APPROX_QUANTILE: `expected` has both bounds of each value
    # APPROX_TOP_K: `expected` has the count of every item, and at last, without an item, k.
    MOST_FREQUENT = "most frequent"


class Untranslatable(Exception):
    """The judge does not support this statement well enough to recompute it."""


_UNREADABLE, _UNKNOWN = "\0unreadable", "\0unknown"


def unreadable(error: Exception) -> Mapping[str, str]:
    """A mark in the JSON of an input record, in place of a column that cannot be read.

    Whether the record is bad is known where it is known which columns a statement needs.
    """
    return {_UNKNOWN if isinstance(error, Untranslatable) else _UNREADABLE: str(error)}


def readable(value: Any) -> Any:
    """The value, if it is no mark.

    Raises:
        ValueError: it cannot be read.
        Untranslatable: the judge cannot read it.
    """
    if isinstance(value, dict) and _UNREADABLE in value:
        raise ValueError(value[_UNREADABLE])
    if isinstance(value, dict) and _UNKNOWN in value:
        raise Untranslatable(value[_UNKNOWN])
    return value


@dataclass(frozen=True)
class OpenTransaction:
    """A topic partition whose last stable offset stays behind its end."""

    topic: str
    partition: int
    last_stable_offset: int
    end_offset: int


@dataclass(frozen=True)
class RowHead:
    """The head of a changelog row.

    Attributes:
        newest_ms: the newest event time of its records.
        records: their number; None where COUNT(*) is not the first aggregate.
    """

    newest_ms: int
    records: int | None


def same(expected: Any, actual: Any, match: Match = Match.EXACT) -> bool:
    """Whether a recomputed value agrees with the table's.  Both are in JSON form."""
    if match is Match.EXACT:
        return _equal(expected, actual)
    if match is Match.ANY_OF:
        return any(_equal(e, actual) for e in expected) or (not expected and actual is None)
    if match in _NEAR:
        return _NEAR[match](expected, actual)
    if not isinstance(actual, list) or not isinstance(expected, list):
        return expected is None and actual is None
    if len(actual) != min(len(expected), COLLECT_LIMIT):
        return False
    return Counter(map(_bagged, actual)) <= Counter(map(_bagged, expected))


def show_key(key: Key) -> str:
    """A key in the form that a person writes."""
    return " | ".join("null" if part is None else str(part) for part in key)


def _bagged(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9e}" if math.isfinite(value) else repr(no_number(value))
    return f"{value:.9e}" if isinstance(value, Decimal) else repr(value)


def no_number(value: float) -> str:
    """A double without a JSON number, as Jackson writes it."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _equal(expected: Any, actual: Any) -> bool:
    if isinstance(expected, float) and not math.isfinite(expected):
        return bool(actual == no_number(expected))
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, float) or isinstance(actual, float):
        return _close(expected, actual)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_equal, expected, actual))
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(
            _equal(v, actual[k]) for k, v in expected.items()
        )
    return bool(expected == actual)


def _close(expected: Any, actual: Any) -> bool:
    numbers = (int, float, Decimal)
    if not isinstance(expected, numbers) or not isinstance(actual, numbers):
        return False
    return math.isclose(float(expected), float(actual), rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _near_count(expected: Any, actual: Any) -> bool:
    """Small counts are all but exact; two values in 67 million share a hash."""
    if not isinstance(expected, int) or not isinstance(actual, int) or isinstance(actual, bool):
        return False
    return abs(expected - actual) <= max(1.0, expected * _COUNT_ERROR)


def _between(expected: Any, actual: Any) -> bool:
    if expected is None or actual is None:
        return expected is None and actual is None
    answers = actual if isinstance(actual, list) else [actual]
    bounds = [expected[i : i + 2] for i in range(0, len(expected), 2)]
    return len(answers) == len(bounds) and all(map(_within, answers, bounds))


_NO_NUMBERS = {no_number(value): value for value in (math.nan, math.inf, -math.inf)}


def _within(actual: Any, bounds: list[Any]) -> bool:
    """Whether it is between the bounds; NaN is the greatest double."""
    value, least, most = map(_number, (actual, *bounds))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    if math.isfinite(least):
        least = min(least, _DIGEST_MOST) - abs(least) * _RELATIVE
    if math.isfinite(most):
        most = max(most, -_DIGEST_MOST) + abs(most) * _RELATIVE
    return _rank(least) <= _rank(float(value)) <= _rank(most)


def _number(value: Any) -> Any:
    return _NO_NUMBERS.get(value, value) if isinstance(value, str) else value


def _rank(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _most_frequent(expected: Any, actual: Any) -> bool:
    """No count too low, none too high by more than the error, nothing frequent left out."""
    *every, last = expected
    counts = {_bagged(e["ITEM"]): e["COUNT"] for e in every}
    found = [(_bagged(e["ITEM"]), e["COUNT"]) for e in actual or ()]
    most = int(sum(counts.values()) * _FREQUENCY_ERROR)
    near = all(0 <= n - counts.get(item, n + 1) <= most for item, n in found)
    ordered = all(a[1] >= b[1] for a, b in pairwise(found))
    left_out = [n for item, n in counts.items() if item not in dict(found)]
    least = found[-1][1] if found and len(found) == last["COUNT"] else most
    distinct = len(dict(found)) == len(found) <= last["COUNT"]
    return near and ordered and distinct and max(left_out, default=0) <= least


_NEAR = {
    Match.NEAR_COUNT: _near_count,
    Match.BETWEEN: _between,
    Match.MOST_FREQUENT: _most_frequent,
}
