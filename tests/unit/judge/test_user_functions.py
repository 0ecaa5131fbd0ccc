"""Users' functions and aggregates are recomputed by their own bodies, in another process."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.judge.read.decode import InputDecoder
from holdfast.judge.recompute.recompute import InputTable, recompute_table
from holdfast.judge.recompute.rehearsal import rehearse
from holdfast.judge.statement.translate import translate
from holdfast.judge.statement.user_functions import declare
from holdfast.judge.values import Untranslatable
from holdfast.tasks.aggregates.user import load_functions
from holdfast.types.columns.schema import Base, Column, SqlType
from tests.unit.judge.rebuilding import In, table_of, unit_of
from tests.unit.judge.statements import FLIGHTS, flight, query, recomputed

FUNCTIONS = """
import os
import random
from decimal import Decimal
from holdfast import aggregate, function

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

def of(name, args, returns, **others):
    return function(name, args=args, returns=returns, deterministic=True, **others)

@of("JUDGED_INITIALS", ["VARCHAR"], "STRING")
def initials(name): return "".join(word[0] for word in name.split())

@of("JUDGED_WEIGHT", ["DOUBLE", "INT"], "DOUBLE", nulls=True)
def weight(x, seats): return (-1.0 if x is None else x) * seats

@of("JUDGED_PID", ["STRING"], "BIGINT")
def pid(name): return os.getpid()

@of("JUDGED_SMALL", ["BIGINT"], "INTEGER")
def small(n): return "text" if n == 7 else n

@of("JUDGED_SHARE", ["BIGINT"], "BIGINT")
def share(n): return 10 // n

@of("JUDGED_NEXT_DAY", ["TIMESTAMP"], "TIMESTAMP")
def next_day(ms): return ms + 86_400_000

@of("JUDGED_NEXT_DATE", ["DATE"], "DATE")
def next_date(days): return days + 1

@of("JUDGED_CENTS", ["DOUBLE"], "DECIMAL(6, 2)")
def cents(x): return Decimal(x).quantize(Decimal("0.01"))

@of("JUDGED_COIN", ["BIGINT"], "DOUBLE")
def coin(n): return random.random()

@of("JUDGED_DEATH", ["BIGINT"], "BIGINT")
def death(n): os._exit(1)

@of("JUDGED_TAGS", ["ARRAY<STRING>"], "STRING")
def tags(all): return ",".join(all)

@function("JUDGED_NOW", args=["BIGINT"], returns="BIGINT")
def now(n): return n
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


def _of_key(expression: str, carrier: str = "AA", **fields: object) -> object:
    select = f"SELECT {expression} AS k, COUNT(*) AS v FROM flights GROUP BY {expression}"
    ((key,),) = recomputed(select, ["K"], ["V"], [flight(carrier, **fields)]).rows
    return key


def _of_column(expression: str, kind: str, value: object) -> object:
    source = replace(FLIGHTS, value_columns=(Column("V", SqlType(Base(kind))),), timestamp=None)
    select = f"SELECT {expression} AS k, COUNT(*) AS n FROM flights GROUP BY {expression}"
    asked = query(select, ["K"], ["N"], source)
    batch = translate(asked, [0])
    table = InputTable(InputDecoder(source, batch.needed))
    table.add(0, 0, b"id", json.dumps({"v": value}).encode(), 7)
    ((key,),) = recompute_table(batch, asked.sink, table).rows
    return key


def test_a_function_gives_what_its_body_gives() -> None:
    assert _of_key("JUDGED_INITIALS(carrier)", "North West Air") == "NWA"
    assert _one("SUM(JUDGED_WEIGHT(delay, seats))", 1.5, None) == 1.0
    assert _one("JUDGED_WEIGHT(MAX(delay), 3)", 1.5, 2.5) == 7.5
    assert _one("TOPKDISTINCT(JUDGED_WEIGHT(delay, seats), 2)", 1.5, 1.5, 0.5, 2.5) == [5.0, 3.0]
    assert _one("SPREAD(JUDGED_WEIGHT(delay, seats), seats)", 1.0, 2.0) == 4.0
    assert _of_key("JUDGED_PID(carrier)") not in (os.getpid(), None)


def test_functions_take_and_give_times_as_numbers_and_numbers_as_their_types() -> None:
    assert _of_column("JUDGED_NEXT_DAY(v)", "TIMESTAMP", 1_001) == 86_401_001
    assert _of_column("JUDGED_NEXT_DATE(v)", "DATE", 3) == 4
    assert _one("JUDGED_CENTS(MAX(delay))", 1.25) == 1.25


def test_what_raises_or_is_of_another_type_is_null() -> None:
    assert _of_key("COALESCE(JUDGED_SHARE(ts), -1)", ts=5) == 2
    assert _of_key("COALESCE(JUDGED_SHARE(ts), -1)", ts=0) == -1
    assert _of_key("COALESCE(JUDGED_SMALL(ts), -1)", ts=7) == -1
    assert _of_key("COALESCE(JUDGED_SMALL(ts), -1)", ts=1 << 31) == -1
    assert _of_key("COALESCE(JUDGED_SMALL(ts), -1)", ts=6) == 6


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("JUDGED_NOW(ts)", "JUDGED_NOW is not declared with deterministic=True"),
        ("JUDGED_COIN(ts)", "JUDGED_COIN raised ValueError: the same arguments gave two results"),
        ("JUDGED_DEATH(ts)", "the process of JUDGED_DEATH died"),
        ("JUDGED_TAGS(ts)", "JUDGED_TAGS with a ARRAY<STRING>"),
        ("JUDGED_INITIALS(carrier, ts)", "JUDGED_INITIALS of 2 arguments"),
    ],
)
def test_a_function_that_cannot_be_relied_upon_is_not_judged(
    functions: Path, call: str, why: str
) -> None:
    with pytest.raises(Untranslatable, match=why):
        _of_key(call)
    declare([str(functions)])


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
