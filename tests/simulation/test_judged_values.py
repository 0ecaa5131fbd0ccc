"""Judge and engine agree on NaN, -0.0 and sums that do not fit; other rules are found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast.judge.verdict import TableVerdict, Verdict
from holdfast.tasks.aggregates import extremes, lists, numeric, sketches
from holdfast.tasks.processors.tables import changes
from tests.simulation.jobs.judged_kinds import Inputs, JudgedJob
from tests.simulation.jobs.kinds import Sent

SOURCES = """
CREATE STREAM a (k VARCHAR KEY, x DOUBLE, m DECIMAL(38, 2))
  WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE t (k VARCHAR PRIMARY KEY, f DOUBLE)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=2);
"""
STATEMENTS = {
    "extremes": "CREATE TABLE s AS SELECT k, MAX(x) AS m, MIN(x) AS l FROM a GROUP BY k;",
    "distinct": "CREATE TABLE s AS SELECT k, COUNT_DISTINCT(x) AS n, TOPKDISTINCT(x, 3) AS l "
    "FROM a GROUP BY k;",
    "near": "CREATE TABLE s AS SELECT k, APPROX_COUNT_DISTINCT(x) AS n, APPROX_QUANTILE(x, 0.5, 1) "
    "AS q, APPROX_TOP_K(k, 2) AS m, LATEST_BY_OFFSET(x) AS l FROM a GROUP BY k;",
    "decimals": "CREATE TABLE s AS SELECT k, SUM(m) AS m FROM a GROUP BY k;",
    "groups": "CREATE TABLE s AS SELECT f, COUNT(*) AS n FROM t GROUP BY f;",
}
_HUGE = "6" + "0" * 35 + ".00"
_NUMBERS = ["3.0", '"NaN"', "-0.0", '"NaN"', "0.0", "1.5"]
_SUMS = [_HUGE, _HUGE, "-" + _HUGE, "1.00", "0.01", "-" + _HUGE]


def _inputs() -> Inputs:
    """Three batches: each of `k0` and `k1` meets everything, in another order."""
    found: dict[str, list[list[Sent]]] = {"a": [], "t": []}
    for batch in range(3):
        at = 1_000_000 + batch * 100
        numbers = _NUMBERS[batch * 2 :] + _NUMBERS[: batch * 2]
        sums = _SUMS[batch * 2 : batch * 2 + 2]
        found["a"].append(
            [
                Sent(key, f'{{"x": {x}, "m": "{m}"}}'.encode(), at + n)
                for n, (x, m) in enumerate(zip(numbers, sums * 3, strict=True))
                for key in ((b"k0", b"k1") if n < 2 else (b"k0",))
            ]
        )
        found["t"].append(
            [Sent(b"k%d" % n, f'{{"f": {numbers[n]}}}'.encode(), at + n) for n in range(4)]
        )
    return found


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as found:
        yield found


def _verdict(patch: pytest.MonkeyPatch, kind: str) -> TableVerdict:
    job = JudgedJob(patch, f"{SOURCES}{STATEMENTS[kind].replace(';', ' EMIT CHANGES;')}")
    job.run(_inputs())
    (verdict,) = job.judged().tables
    return verdict


@pytest.mark.parametrize("kind", STATEMENTS)
def test_engine_and_judge_agree(patch: pytest.MonkeyPatch, kind: str) -> None:
    verdict = _verdict(patch, kind)
    assert not [f for f in verdict.findings if f.verdict is not Verdict.VALID]
    assert verdict.rows > 0


# -- engines with other rules --------------------------------------------------------------------


def _nan_is_nothing(patch: pytest.MonkeyPatch) -> None:
    """A5: MAX is merged as Arrow has it, which passes a NaN over."""
    patch.setattr(extremes, "is_double", lambda _: False)


def _no_nan_is_another(patch: pytest.MonkeyPatch) -> None:
    """A5: what is distinct is what `==` says."""
    patch.setattr(lists, "rank", lambda value: value)


def _zero_for_too_much(patch: pytest.MonkeyPatch) -> None:
    """A4: a sum that leaves 38 digits on its way is 0."""
    real = numeric._DecimalSumCall._each

    def narrow(self: Any, operation: Any, first: pa.Array, other: pa.Array) -> pa.Array:
        whole = real(self, operation, first, other)
        fits = pc.less(pc.abs(whole), self._bound)
        return pc.if_else(fits, whole, self._zero)

    patch.setattr(numeric._DecimalSumCall, "_each", narrow)


class _Equal(bytes):
    """A key as the number it is: 0.0 is -0.0, and no NaN another."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and _number(self) == _number(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return 0


def _number(key: bytes) -> float:
    return float(json.loads(key))


def _operators(of: Any, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A6: groups are compared as numbers."""
    real = getattr(of, name)

    def loose(self: Any, rows: list[bytes | None]) -> list[bytes | None]:
        return [None if key is None else _Equal(key) for key in real(self, rows)]

    return lambda patch: patch.setattr(of, name, loose)


def _counted_twice(patch: pytest.MonkeyPatch) -> None:
    """A sketch is merged with itself."""
    real = sketches.TopSketch.add

    def twice(self: Any, sketch: Any, values: Any) -> None:
        real(self, sketch, [*values, *values])

    patch.setattr(sketches.TopSketch, "add", twice)


def _quantiles_upside_down(patch: pytest.MonkeyPatch) -> None:
    real = sketches.Quantiles.at
    patch.setattr(sketches.Quantiles, "at", lambda self, share: real(self, 1 - share))


MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "nan-is-nothing": (_nan_is_nothing, "extremes"),
    "no-nan-is-another": (_no_nan_is_another, "distinct"),
    "zero-for-too-much": (_zero_for_too_much, "decimals"),
    "counted-twice": (_counted_twice, "near"),
    "quantiles-upside-down": (_quantiles_upside_down, "near"),
    "groups-by-operator": (_operators(changes.ChangesProcessor, "_groups_of"), "groups"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_an_engine_with_other_rules_is_found(patch: pytest.MonkeyPatch, name: str) -> None:
    mutate, kind = MUTANTS[name]
    mutate(patch)
    verdict = _verdict(patch, kind)
    assert [f for f in verdict.findings if f.verdict is Verdict.INVALID], verdict.findings
