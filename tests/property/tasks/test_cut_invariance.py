"""The law of cuts: wherever batches end, and whichever are tried again, the same comes out.

Of every aggregate, in every kind of window: the same rows of state byte by byte, the same fold of
the changelog, and the same fold of the sink.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.aggregates.registry import names
from holdfast.tasks.aggregates.user import registered
from holdfast.types.statements.topology import TIMESTAMP, AggregateStep, Query
from tests.support.jobs.cut_runner import CutRunner, Row
from tests.support.values.special_values import EXACT, ROUNDED, VALUES, aggregated, declared

GRACE = "GRACE PERIOD 1 DAY"
WINDOWS = {
    "none": "",
    "tumbling": f"WINDOW TUMBLING (SIZE 20 MILLISECONDS, {GRACE})",
    "hopping": f"WINDOW HOPPING (SIZE 20 MILLISECONDS, ADVANCE BY 7 MILLISECONDS, {GRACE})",
    "session": f"WINDOW SESSION (5 MILLISECONDS, {GRACE})",
}
CASES = [(window, emit) for window in WINDOWS for emit in ("batch", "record")]
CASES += [(window, "final") for window in WINDOWS if window != "none"]

_ROW = st.fixed_dictionaries(
    {name: st.sampled_from(values) for name, values in VALUES.items()}
    | {"ID": st.just("i"), "G": st.sampled_from(["g", "h"]), TIMESTAMP: st.integers(0, 60)}
)
_CASES = st.sampled_from(CASES)
_ROWS = st.lists(_ROW, min_size=1, max_size=9)
_CUTS = st.sets(st.integers(1, 8), max_size=4)
_REPLAYED = st.sets(st.integers(0, 4), max_size=2)
# Ten values of `E` sum up to 1e8 in between, whose last binary digit is 1.5e-8: so much may be left
# of an average that is 0.
_DIGIT = 1e-7
_CLOSING: Row = {**dict.fromkeys(VALUES), "ID": "i", "G": "z", TIMESTAMP: 10**9}

# Estimates, whose law is their documented error: tests/unit/tasks/aggregates/test_approximate.py.
SKETCHED = {"APPROX_COUNT_DISTINCT", "APPROX_QUANTILE", "APPROX_TOP_K"}

made = cache(aggregated)


@cache
def _made_computed(window: str, emit: str) -> Query:
    """A condition that is NULL for some records, a computed key, computed arguments."""
    end = "EMIT FINAL" if emit == "final" else "EMIT CHANGES"
    key = "CASE WHEN b > 0 OR g = 'z' THEN UCASE(g) ELSE t END"
    select = (
        f"SELECT {key} AS x0, COUNT(*) AS x1, SUM(q * 2) AS x2, "
        "COLLECT_LIST(COALESCE(t, 'none')) AS x3, LATEST_BY_OFFSET(i + 1, false) AS x4, "
        f"MAX(d * 0.5) AS x5 FROM s {WINDOWS[window]} WHERE i <> -7 OR g = 'z' "
        f"GROUP BY {key} {end}"
    )
    return declared("made", select, emit="batch" if emit == "final" else emit)


def _query(calls: tuple[str, ...], window: str, emit: str) -> Query:
    return made(calls, WINDOWS[window], emit=emit)


def _both(
    query: Query, rows: list[Row], cuts: set[int], replayed: set[int], emit: str
) -> tuple[CutRunner, CutRunner]:
    """As it is cut, and as one batch."""
    every = [*rows, _CLOSING] if emit == "final" else rows
    cut_up, whole = CutRunner(query), CutRunner(query)
    return cut_up.run(every, cuts, replayed), whole.run(every, set(), set())


@given(_CASES, _ROWS, _CUTS, _REPLAYED)
def test_no_aggregate_depends_on_cuts(
    case: tuple[str, str], rows: list[Row], cuts: set[int], replayed: set[int]
) -> None:
    query, emit = _query(EXACT, *case), case[1]
    some, whole = _both(query, rows, cuts, replayed, emit)
    assert some.rows == some.changelog == whole.rows
    assert some.elements == whole.elements
    assert some.sink == whole.sink
    if emit != "batch":
        assert some.told == whole.told


@given(_CASES, _ROWS, _CUTS, _REPLAYED)
def test_no_computed_column_depends_on_cuts(
    case: tuple[str, str], rows: list[Row], cuts: set[int], replayed: set[int]
) -> None:
    some, whole = _both(_made_computed(*case), rows, cuts, replayed, case[1])
    assert some.rows == some.changelog == whole.rows
    assert some.sink == whole.sink
    if case[1] != "batch":
        assert some.told == whole.told


@given(_CASES, _ROWS, _CUTS, _REPLAYED)
def test_what_is_rounded_differs_in_its_last_digits(
    case: tuple[str, str], rows: list[Row], cuts: set[int], replayed: set[int]
) -> None:
    query, emit = _query(ROUNDED, *case), case[1]
    some, whole = _both(query, rows, cuts, replayed, emit)
    assert set(some.rows) == set(whole.rows)
    assert _close(some.sink) == _close(whole.sink)


def _close(sink: dict[Any, Any]) -> dict[Any, Any]:
    """Values that are equal where they differ by a billionth, or by a sum's last digit."""
    found = {}
    for key, (value, time) in sink.items():
        row = orjson.loads(value)
        found[key] = [_rounded(v) for v in row.values()], time
    return found


def _rounded(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9, abs=_DIGIT) if isinstance(value, float) else value


def test_the_law_knows_every_aggregate() -> None:
    steps = [made(calls).step for calls in (EXACT, ROUNDED)]
    known = {c.function for s in steps if isinstance(s, AggregateStep) for c in s.aggregates}
    # What other tests of this process have registered is the user's, and has no law here.
    assert known >= set(names()) - set(registered()) - SKETCHED
