"""Users' aggregates are recomputed by their own `update` and `finish`, in another process."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.judge.recompute.rehearsal import rehearse
from holdfast.judge.statement.user_functions import declare
from holdfast.judge.values import Untranslatable
from holdfast.tasks.aggregates.user import load_functions
from tests.unit.judge.rebuilding import In, table_of, unit_of
from tests.unit.judge.statements import flight, recomputed

FUNCTIONS = """
import os
import random
from holdfast import aggregate

@aggregate("SPREAD", args=["DOUBLE", "INTEGER"], returns="DOUBLE")
class Spread:
    def init(self): return []
    def update(self, state, x, weight): return state if x is None else [*state, x * weight]
    def merge(self, a, b): raise AssertionError("the judge does not merge")
    def finish(self, state): return max(state) - min(state) if state else None

@aggregate("JUDGED_PLACE", args=["DOUBLE"], returns="BIGINT")
class Place:
    def init(self): return os.getpid()
    def update(self, state, x): return state
    def merge(self, a, b): return a
    def finish(self, state): return state

@aggregate("JUDGED_LAST", args=["BIGINT"], returns="BIGINT")
class Last:
    def init(self): return None
    def update(self, state, x): return x
    def merge(self, a, b): return b if b is not None else a
    def finish(self, state):
        if state == 13: raise RuntimeError("unlucky")
        if state == 14: os._exit(1)
        return state
"""


@pytest.fixture(scope="module", autouse=True)
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    file = tmp_path_factory.mktemp("users") / "my_functions.py"
    file.write_text(FUNCTIONS, encoding="utf-8")
    load_functions([str(file)])  # the planner knows them from here
    declare([str(file)])
    yield file
    declare([])


def _one(expression: str, *delays: float | None) -> object:
    select = f"SELECT carrier, {expression} AS v FROM flights GROUP BY carrier"
    records = [flight("AA", delay=delay, seats=2) for delay in delays]
    return recomputed(select, ["CARRIER"], ["V"], records).rows["AA",]["V"]


def test_its_own_update_and_finish_make_the_value() -> None:
    assert _one("SPREAD(delay, seats)", 1.5, None, 4.0) == 5.0
    assert _one("SPREAD(delay, seats) + 1", 1.5, 4.0) == 6.0
    assert _one("SPREAD(delay, seats)", None) is None


def test_it_runs_in_a_process_of_its_own() -> None:
    assert _one("JUDGED_PLACE(delay)", 1.0) not in (os.getpid(), None)


TABLE = "CREATE TABLE s AS SELECT k, JUDGED_LAST(v) AS n FROM a {} GROUP BY k;"


def test_statements_with_it_can_be_judged() -> None:
    rehearse(unit_of(TABLE.format("")))


def test_what_raises_or_depends_on_an_unknown_order_is_not_judged() -> None:
    sessions = TABLE.format("WINDOW SESSION (1 HOUR)")
    with pytest.raises(Untranslatable, match="JUDGED_LAST raised RuntimeError: unlucky"):
        table_of(sessions, records={"a": [In("x", {"V": 13})]})
    select = "SELECT carrier, JUDGED_LAST(ts) AS v FROM flights GROUP BY carrier"
    records = [flight("AA", ts=n) for n in range(4)]
    assert recomputed(select, ["CARRIER"], ["V"], records).rows["AA",]["V"] == 3
    with pytest.raises(Untranslatable, match="JUDGED_LAST depends on the order of records"):
        recomputed(select, ["CARRIER"], ["V"], records, 2)


@pytest.mark.parametrize("carriers", [12, 6_000])
def test_each_group_gets_its_own_value(carriers: int) -> None:
    """DuckDB asks for groups in several threads."""
    chance = random.Random(1)
    delays: dict[str, list[float]] = {}
    records = []
    for _ in range(12_000):
        carrier, delay = f"A{chance.randrange(carriers)}", float(chance.randrange(1_000))
        delays.setdefault(carrier, []).append(delay)
        records.append(flight(carrier, delay=delay, seats=2))
    select = "SELECT carrier, SPREAD(delay, seats) AS v FROM flights GROUP BY carrier"
    for partitions in (1, 3):
        found = recomputed(select, ["CARRIER"], ["V"], records, partitions).rows
        assert {key[0]: row["V"] for key, row in found.items()} == {
            carrier: 2 * (max(of) - min(of)) for carrier, of in delays.items()
        }


@pytest.mark.parametrize("carriers", [1, 6_000])
def test_a_process_that_dies_is_told_and_replaced(functions: Path, carriers: int) -> None:
    records = [flight(f"A{n}", ts=14) for n in range(carriers)]
    select = "SELECT carrier, JUDGED_LAST(ts) AS v FROM flights GROUP BY carrier"
    with pytest.raises(Untranslatable, match="the process of JUDGED_LAST died"):
        recomputed(select, ["CARRIER"], ["V"], records)
    declare([str(functions)])
    assert _one("SPREAD(delay, seats)", 1.0, 4.0) == 6.0


def test_without_its_file_it_is_unknown(tmp_path: Path) -> None:
    declared = tmp_path / "other.py"
    declared.write_text("", encoding="utf-8")
    with pytest.raises(Untranslatable, match="cannot be loaded"):
        declare([str(tmp_path / "nothing.py")])
    declare([str(declared)])
    with pytest.raises(Untranslatable, match="the function SPREAD is not known"):
        _one("SPREAD(delay, seats)", 1.0)
