"""Common types of the judge: keys, rows, and equality of values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

__all__ = [
    "COLLECT_LIMIT",
    "EXAMPLES_MAX",
    "Key",
    "Match",
    "OpenTransaction",
    "Row",
    "RowHead",
    "Untranslatable",
    "no_number",
    "same",
    "show_key",
]

Key = tuple[Any, ...]  # key columns in order, then the window start in ms when windowed
Row = Mapping[str, Any]  # value columns as their JSON form

EXAMPLES_MAX = 5
COLLECT_LIMIT = 1000  # ksqlDB keeps this many elements of COLLECT_LIST and COLLECT_SET
_RELATIVE, _ABSOLUTE = 1e-9, 1e-9  # for doubles: the order of a sum varies


class Match(StrEnum):
    """How a recomputed value is compared with the table's."""

    EXACT = "exact"
    ANY_OF = "any of"  # `expected` lists every value that some legal order of records gives
    BAG = "bag"  # a list in any order, cut off at COLLECT_LIMIT


class Untranslatable(Exception):
    """The judge does not support this statement well enough to recompute it."""


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
