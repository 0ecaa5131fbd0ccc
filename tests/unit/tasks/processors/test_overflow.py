"""Sums of decimals that do not fit, where a statement wants ksqlDB's answer: its query ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from holdfast.testing.files import cases_at
from holdfast.testing.run import Outcome, Runner
from holdfast.types.statements.topology import Emit

_SALES = (
    "CREATE STREAM sales (shop STRING KEY, price DECIMAL(3, 1)) "
    "WITH (KAFKA_TOPIC='sales', VALUE_FORMAT='JSON');"
)
_TOTALS = "CREATE TABLE totals AS SELECT shop, COUNT(*) AS n, SUM(price) AS total FROM sales"
_GROUPED = {
    "plain": f"{_TOTALS} GROUP BY shop;",
    "windows": f"{_TOTALS} WINDOW HOPPING (SIZE 4 SECONDS, ADVANCE BY 2 SECONDS) GROUP BY shop;",
    "sessions": f"{_TOTALS} WINDOW SESSION (9 SECONDS) GROUP BY shop;",
    "final": f"{_TOTALS} WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY shop EMIT FINAL;",
    "having": f"{_TOTALS} GROUP BY shop HAVING COUNT(*) > 9;",
}


def _refused(
    folder: Path, statement: str, prices: Sequence[tuple[str, float | None]], runner: Runner
) -> str:
    """Why the records are refused; empty: they are not."""
    case = {
        "name": "sums",
        "properties": {"ksqldb.differences": "none"},
        "statements": [_SALES, statement],
        "inputs": [
            {"topic": "sales", "key": k, "value": {"PRICE": price}, "timestamp": n}
            for n, (k, price) in enumerate(prices)
        ],
        "outputs": [],
        "expectedException": {"message": "Numeric field overflow"},
    }
    (folder / "case.json").write_bytes(orjson.dumps({"tests": [case]}))
    (result,) = runner.run(list(cases_at(folder / "case.json")))
    assert result.outcome is not Outcome.ERROR
    return result.reason if result.outcome is Outcome.PASSED else ""


@pytest.mark.parametrize("emit", [Emit.RECORD, Emit.BATCH])
@pytest.mark.parametrize("cut", [1, 2, 99])
@pytest.mark.parametrize("grouped", _GROUPED)
def test_a_sum_that_does_not_fit_is_named_however_records_are_grouped_and_cut(
    tmp_path: Path, grouped: str, cut: int, emit: Emit
) -> None:
    runner = Runner(emit, batch_records=cut)
    fits = [("a", 60.0), ("b", 99.9), ("a", None), ("a", 39.9)]
    assert _refused(tmp_path, _GROUPED[grouped], fits, runner) == ""
    told = _refused(tmp_path, _GROUPED[grouped], [*fits, ("a", 0.1)], runner)
    assert "the SUM of SHOP = 'a' is 100.0, which is no DECIMAL(3, 1)." in told
    negative = [("a", -60.0), ("b", 99.9), ("a", -40.0)]
    assert "is -100.0" in _refused(tmp_path, _GROUPED[grouped], negative, runner)


def test_the_sum_is_looked_at_after_each_record_or_after_each_batch(tmp_path: Path) -> None:
    back = [("a", 60.0), ("a", 60.0), ("a", -60.0)]
    plain = _GROUPED["plain"]
    assert "is 120.0" in _refused(tmp_path, plain, back, Runner(Emit.RECORD))
    assert _refused(tmp_path, plain, back, Runner(Emit.BATCH)) == ""
    assert "is 120.0" in _refused(tmp_path, plain, back, Runner(Emit.BATCH, batch_records=1))


def test_a_long_key_is_shortened(tmp_path: Path) -> None:
    long = [("k" * 100_000, 60.0), ("k" * 100_000, 60.0)]
    told = _refused(tmp_path, _GROUPED["plain"], long, Runner())
    assert "is 120.0" in told
    assert len(told) < 1_000
