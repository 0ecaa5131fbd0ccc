"""Statements recomputed from records: ksqlDB's meaning, worked out by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from holdfast.judge.recompute.recompute import recompute_first, recompute_stream, recompute_table
from holdfast.judge.statement.translate import translate
from holdfast.judge.values import Match, Untranslatable
from tests.unit.judge.statements import FLIGHTS, flight, load, query, recomputed

HOUR = 3_600_000


def one_value(expression: str, records: list[dict[str, Any]], partitions: int = 1) -> Any:
    select = f"SELECT carrier, {expression} AS v FROM flights GROUP BY carrier"
    return recomputed(select, ["CARRIER"], ["V"], records, partitions).rows["AA",]["V"]


def of(column: str, *values: Any) -> list[dict[str, Any]]:
    return [flight("AA", **{column: v}) for v in values]


@pytest.mark.parametrize(
    ("expression", "column", "values", "result"),
    [
        ("COUNT(*)", "seats", (1, None), 2),
        ("COUNT(seats)", "seats", (1, None), 1),
        ("SUM(seats)", "seats", (3, None, 4), 7),
        ("SUM(seats)", "seats", (None,), 0),
        ("SUM(seats)", "seats", (2**30, 2**29), 2**30 + 2**29),
        ("SUM(delay)", "delay", (0.5, 1.25), 1.75),
        ("AVG(seats)", "seats", (67, 52, None), 59.5),
        ("AVG(seats)", "seats", (None,), 0.0),
        ("MIN(delay)", "delay", (2.0, None, -1.0), -1.0),
        ("MAX(delay)", "delay", (None,), None),
        ("SUM(seats) / COUNT(*)", "seats", (3, 4), 3),
        ("SUM(delay) / COUNT(*)", "delay", (3.0, 4.0), 3.5),
        ("SUM(seats) + 1", "seats", (3, 4), 8),
        ("COUNT_DISTINCT(seats)", "seats", (1, 1, 2, None), 2),
        ("EARLIEST_BY_OFFSET(seats)", "seats", (None, 5, 6), 5),
        ("LATEST_BY_OFFSET(seats)", "seats", (5, 6, None), 6),
        ("COLLECT_LIST(seats)", "seats", (2, None, 2), [2, None, 2]),
        ("TOPK(seats, 2)", "seats", (1, 3, 3, None), [3, 3]),
        ("TOPK(seats, 2)", "seats", (None,), []),
        ("TOPKDISTINCT(seats, 2)", "seats", (1, 3, 3), [3, 1]),
        ("SUM(CASE WHEN seats > 1 THEN 1 ELSE 0 END)", "seats", (1, 2, 3), 2),
        ("COUNT(*) % 2", "seats", (1, 2, 3), 1),
        ("MAX(UCASE(origin))", "origin", ("jfk", "ewr"), "JFK"),
        ("MAX(origin + '!')", "origin", ("jfk",), "jfk!"),
        ("SUM(LEN(origin))", "origin", ("jfk", "ab"), 5),
        ("AS_VALUE(carrier)", "seats", (1,), "AA"),
    ],
)
def test_an_aggregate(expression: str, column: str, values: tuple[Any, ...], result: Any) -> None:
    assert one_value(expression, of(column, *values)) == result


@pytest.mark.parametrize(
    ("expression", "column", "values", "result"),
    [
        ("APPROX_COUNT_DISTINCT(seats)", "seats", (1, 1, 2, None), 2),
        ("APPROX_COUNT_DISTINCT(delay)", "delay", (0.0, -0.0, None), 2),
        ("APPROX_QUANTILE(seats, 0.5)", "seats", (*range(100), None), [47.0, 51.0]),
        ("APPROX_QUANTILE(delay, 0, 1)", "delay", (1.0, 2.0), [1.0, 1.0, 2.0, 2.0]),
        ("APPROX_QUANTILE(delay, 0.5)", "delay", (None,), None),
        ("APPROX_TOP_K(origin, 3)", "origin", ("b", "a", "a", None),
         [{"ITEM": "a", "COUNT": 2}, {"ITEM": "b", "COUNT": 1}, {"ITEM": None, "COUNT": 3}]),
        ("APPROX_TOP_K(origin, 3)", "origin", (None,), [{"ITEM": None, "COUNT": 3}]),
    ],
)  # fmt: skip
def test_of_an_approximate_aggregate_the_bounds(
    expression: str, column: str, values: tuple[Any, ...], result: Any
) -> None:
    assert one_value(expression, of(column, *values)) == result


@pytest.mark.parametrize(
    "select",
    [
        "carrier, APPROX_COUNT_DISTINCT(seats) + 1 AS v FROM flights GROUP BY carrier",
        "carrier, COUNT(*) AS v FROM flights GROUP BY carrier HAVING APPROX_QUANTILE(seats, 1) > 2",
        "carrier, APPROX_TOP_K(delay, 2) AS v FROM flights GROUP BY carrier",
    ],
)
def test_what_follows_from_an_estimate_is_not_judged(select: str) -> None:
    with pytest.raises(Untranslatable):
        translate(query(f"SELECT {select}", ["CARRIER"], ["V"]), [0])


def test_collect_set_is_distinct_and_a_null_is_one_of_it() -> None:
    found = one_value("COLLECT_SET(seats)", of("seats", 2, 1, 2, None, None))
    assert sorted(found, key=str) == [1, 2, None]


def test_only_the_first_thousand_elements_are_collected() -> None:
    assert one_value("COLLECT_LIST(seats)", of("seats", *range(1200))) == list(range(1000))


def test_across_topic_partitions_the_latest_may_be_that_of_any() -> None:
    records = of("seats", 1, 10, 2, 20)
    assert sorted(one_value("LATEST_BY_OFFSET(seats)", records, 2)) == [2, 20]
    asked = query(
        "SELECT carrier, LATEST_BY_OFFSET(seats) l, COLLECT_LIST(seats) c FROM flights "
        "GROUP BY carrier",
        ["CARRIER"],
        ["L", "C"],
    )
    assert translate(asked, [0, 1]).matches == {"L": Match.ANY_OF, "C": Match.BAG}
    assert translate(asked, [0]).matches == {"L": Match.EXACT, "C": Match.EXACT}


def test_records_with_a_null_key_part_belong_to_no_group() -> None:
    records = [flight("AA", origin="JFK"), flight("AA"), flight(None, origin="JFK")]
    select = "SELECT carrier, origin, COUNT(*) n FROM flights GROUP BY carrier, origin"
    table = recomputed(select, ["CARRIER", "ORIGIN"], ["N"], records)
    assert table.rows == {("AA", "JFK"): {"N": 1}}


def test_where_filters_and_unknown_does_not_pass() -> None:
    records = of("seats", 1, 5, None)
    select = "SELECT carrier, COUNT(*) n FROM flights WHERE seats > 1 GROUP BY carrier"
    assert recomputed(select, ["CARRIER"], ["N"], records).rows == {("AA",): {"N": 1}}


def test_having_hides_rows_that_are_groups_all_the_same() -> None:
    records = [flight("AA"), flight("AA"), flight("BB")]
    select = "SELECT carrier, COUNT(*) n FROM flights GROUP BY carrier HAVING COUNT(*) > 1"
    table = recomputed(select, ["CARRIER"], ["N"], records)
    assert table.rows == {("AA",): {"N": 2}}
    assert table.records == {("AA",): 2, ("BB",): 1}


def test_a_tumbling_window_takes_its_start_and_not_its_end() -> None:
    records = [flight("AA", ts=t) for t in (0, HOUR - 1, HOUR)]
    select = (
        "SELECT carrier, COUNT(*) n, WINDOWSTART s, WINDOWEND e FROM flights "
        "WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 DAY) GROUP BY carrier"
    )
    table = recomputed(select, ["CARRIER"], ["N", "S", "E"], records)
    assert table.rows == {
        ("AA", 0): {"N": 2, "S": 0, "E": HOUR},
        ("AA", HOUR): {"N": 1, "S": HOUR, "E": 2 * HOUR},
    }
    assert table.newest_ms == HOUR


def test_a_hopping_window_counts_a_record_in_each_window_that_holds_it() -> None:
    records = [flight("AA", ts=t) for t in (HOUR // 4, HOUR)]
    select = (
        "SELECT carrier, COUNT(*) n FROM flights "
        "WINDOW HOPPING (SIZE 60 MINUTES, ADVANCE BY 30 MINUTES) GROUP BY carrier"
    )
    table = recomputed(select, ["CARRIER"], ["N"], records)
    counts = {key[1]: row["N"] for key, row in table.rows.items()}
    assert counts == {0: 1, HOUR // 2: 1, HOUR: 1}


def test_the_first_records_of_some_windows_by_offset_whatever_their_times() -> None:
    times = [HOUR + 5, 7, 3, HOUR, 1]
    records = [flight("AA", ts=t, seats=i + 1) for i, t in enumerate(times)]
    select = (
        "SELECT carrier, COUNT(*) n, SUM(seats) s FROM flights "
        "WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY carrier"
    )
    asked = query(select, ["CARRIER"], ["N", "S"])
    batch = translate(asked, [0])
    table = load(batch, [*records, flight("BB", ts=2, seats=100)])
    made = recompute_table(batch, asked.sink, table)
    wanted = {("AA", 0): 2, ("BB", 0): 1}
    assert recompute_first(batch, asked.sink, table, wanted, made) == {
        ("AA", 0): [{"N": 2, "S": 5}],
        ("BB", 0): [{"N": 1, "S": 100}],
    }


def test_the_first_records_of_several_topic_partitions_are_a_choice() -> None:
    """Seats 1, 3 come from one partition and 2, 4 from the other: which of them came first?"""
    asked = query(
        "SELECT carrier, COUNT(*) n, SUM(seats) s FROM flights "
        "WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY carrier",
        ["CARRIER"],
        ["N", "S"],
    )
    batch = translate(asked, [0, 1])

    def sums(seats: int, wanted: int) -> list[int]:
        table = load(batch, [flight("AA", seats=i + 1) for i in range(seats)], partitions=2)
        made = recompute_table(batch, asked.sink, table)
        found = recompute_first(batch, asked.sink, table, {("AA", 0): wanted}, made)
        return sorted(row["S"] for row in found.get(("AA", 0), ()))

    assert sums(4, 1) == [1, 2]
    assert sums(4, 2) == [1 + 2, 1 + 3, 2 + 4]
    assert sums(4, 3) == [1 + 2 + 3, 1 + 2 + 4]
    assert sums(500, 250) == []  # too many choices


def test_a_grouping_may_be_an_expression() -> None:
    records = [flight("AA", origin="jfk"), flight("BB", origin="JFK")]
    select = "SELECT UCASE(origin) o, COUNT(*) n FROM flights GROUP BY UCASE(origin)"
    assert recomputed(select, ["O"], ["N"], records).rows == {("JFK",): {"N": 2}}


def test_tombstones_and_undecodable_records_are_in_no_group() -> None:
    records = [flight("AA"), None, b"{", b"[1]", {"carrier": "AA", "ts": "soon"}]
    asked = query("SELECT carrier, COUNT(*) n FROM flights GROUP BY carrier", ["CARRIER"], ["N"])
    batch = translate(asked, [0])
    table = load(batch, records)
    assert table.records == 5
    assert table.table()["__dead"].to_pylist() == [False, True]


def test_a_count_says_which_columns_only_grow() -> None:
    asked = query(
        "SELECT carrier, COUNT(*) n, COUNT(seats) s, COUNT(*) + 1 m FROM flights GROUP BY carrier",
        ["CARRIER"],
        ["N", "S", "M"],
    )
    batch = translate(asked, [0])
    assert (batch.growing, batch.never_shrinking) == (("N",), ("S",))


def test_only_the_columns_a_statement_names_are_decoded() -> None:
    asked = query("SELECT carrier, SUM(seats) n FROM flights GROUP BY carrier", ["CARRIER"], ["N"])
    assert translate(asked, [0]).needed == ("ID", "CARRIER", "SEATS", "TS")


def test_a_stateless_statement_makes_one_record_of_each_that_passes() -> None:
    asked = query(
        "SELECT carrier, seats * 2 AS d FROM flights WHERE seats > 0", [], ["CARRIER", "D"]
    )
    batch = translate(asked, [0])
    table = load(batch, of("seats", 1, 1, 0))
    rows = recompute_stream(batch, asked.sink.value_columns, table)
    assert rows == Counter({("AA", 2): 2})


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("SELECT id, seats FROM flights", [("id", 1), ("id", None)]),
        ("SELECT id, seats FROM flights WHERE seats IS NULL OR seats > 0", [("id", 1)]),
        ("SELECT carrier, seats FROM flights PARTITION BY carrier", [("AA", 1), (None, None)]),
    ],
)
def test_a_record_without_a_value_passes_where_there_is_no_where(
    select: str, expected: list[Any]
) -> None:
    by = "ID" if "id" in select else "CARRIER"
    asked = query(select, [by], ["SEATS"])
    batch = translate(asked, [0])
    table = load(batch, [flight("AA", seats=1), None])
    columns = (*asked.sink.key_columns, *asked.sink.value_columns)
    assert recompute_stream(batch, columns, table) == Counter(expected)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT carrier, GEO_DISTANCE(delay) v FROM flights GROUP BY carrier",
        "SELECT carrier, ROUND(SUM(delay), 1) v FROM flights GROUP BY carrier",
        "SELECT carrier, MAX(nobody) v FROM flights GROUP BY carrier",
        "SELECT carrier, MAX(CAST(delay AS VARCHAR)) v FROM flights GROUP BY carrier",
        "SELECT carrier, LATEST_BY_OFFSET(seats, 3) v FROM flights GROUP BY carrier",
        "SELECT f.carrier, COUNT(*) v FROM flights f JOIN g ON f.id = g.id GROUP BY f.carrier",
        "SELECT carrier, COUNT(*) v FROM flights WINDOW SESSION (5 MINUTES) GROUP BY carrier",
        "SELECT carrier, COUNT(*) v FROM",
    ],
)
def test_what_the_judge_does_not_know_it_does_not_guess(select: str) -> None:
    with pytest.raises(Untranslatable):
        translate(query(select, ["CARRIER"], ["V"]), [0])


def test_a_table_as_source_is_not_recomputed() -> None:
    from dataclasses import replace

    asked = query("SELECT carrier, COUNT(*) v FROM flights GROUP BY carrier", ["CARRIER"], ["V"])
    with pytest.raises(Untranslatable, match="is a table"):
        translate(replace(asked, source=replace(FLIGHTS, kind="TABLE")), [0])
