"""SELECT by itself: where it may stand, what it means, which keys its WHERE leaves."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidStatement, Unsupported
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import SelectQuery, Show
from holdfast.sql.parse.text import Place, parse
from holdfast.sql.read.asked import Read
from holdfast.sql.read.plan import parse_read, plan_read
from holdfast.types.columns.schema import BIGINT, DOUBLE, STRING, Base, Column, SqlType
from holdfast.types.statements.sources import Source, WindowKind

DAY = Column("DAY", SqlType(Base.DATE))
TABLE = Source("T", "TABLE", "t", (Column("ID", STRING),), (Column("N", BIGINT),))
WINDOWED = Source(
    "W", "TABLE", "w", (Column("K", BIGINT),), (DAY,), window=WindowKind.TUMBLING,
    window_size_ms=1000,
)  # fmt: skip


def read(text: str, source: Source = TABLE) -> Read:
    return plan_read(*parse_read(text), source)


def bounds(where: str, source: Source = TABLE) -> tuple[list[dict[str, Any]], bool]:
    """Each box: points as lists, intervals as pairs; and whether they are exact."""
    found = read(f"SELECT * FROM {source.name} WHERE {where}", source).bounds
    boxes = [
        {
            name: [p.value for p in d.points.values()] if d.points is not None else (d.low, d.high)
            for name, d in box.domains.items()
        }
        for box in found.boxes
    ]
    return boxes, found.exact


def test_a_select_stands_where_a_server_is_asked() -> None:
    text = "SHOW TABLES; SELECT * FROM t EMIT CHANGES LIMIT 3;"
    shown, asked = parse(Script(text), place=Place.SESSION)
    assert isinstance(shown, Show)
    assert isinstance(asked, SelectQuery)
    assert asked.select.changes
    assert (asked.limit, asked.text) == (3, "SELECT * FROM t EMIT CHANGES LIMIT 3")
    for place in (Place.FILE, Place.TEST):
        with pytest.raises(Unsupported, match="a query server answers them"):
            parse(Script("SELECT * FROM t;"), place=place)


def test_a_condition_reads_the_columns_that_it_names() -> None:
    condition = read("SELECT * FROM t WHERE id = '\"N\"' OR id = 'N'").condition
    assert condition is not None
    assert condition.columns == ("ID",)


def test_a_star_has_the_bounds_of_windows() -> None:
    star = read("SELECT * FROM w", WINDOWED)
    assert [c.name for c in star.columns] == ["K", "WINDOWSTART", "WINDOWEND", "DAY"]
    assert [o.ref for o in star.outputs] == [c.name for c in star.columns]
    named = read("SELECT rowtime, windowend AS e, x.k FROM w x", WINDOWED)
    assert [c.name for c in named.columns] == ["ROWTIME", "E", "K"]
    with pytest.raises(InvalidStatement, match="reserved column name"):
        read("SELECT n AS rowtime FROM t")


@pytest.mark.parametrize(
    ("where", "boxes", "exact"),
    [
        ("id = 'a'", [{"ID": ["a"]}], True),
        ("'a' = id AND n = 1", [{"ID": ["a"]}], False),
        ("id IN ('a', 'b', NULL)", [{"ID": ["a", "b"]}], True),
        ("id = 'a' OR id = 'b'", [{"ID": ["a"]}, {"ID": ["b"]}], True),
        ("id IN ('a', 'b') AND id IN ('b', 'c')", [{"ID": ["b"]}], True),
        ("id = 'a' AND id > 'b'", [], False),
        ("id = 'a' OR n = 1", [{}], False),
        ("NOT id = 'a'", [{}], False),
        ("id >= 'a' AND id < 'c'", [{"ID": ("a", "c")}], False),
        ("id >= 'a' AND id <= 'c'", [{"ID": ("a", "c")}], True),
        ("id IS NOT DISTINCT FROM 'a'", [{"ID": ["a"]}], True),
        ("id LIKE 'a%'", [{}], False),
        ("id = UCASE('a')", [{"ID": ["A"]}], True),
        ("id = id", [{}], False),
    ],
)
def test_bounds_of_a_text_key(where: str, boxes: list[dict[str, Any]], exact: bool) -> None:
    assert bounds(where) == (boxes, exact)


@pytest.mark.parametrize(
    ("where", "boxes", "exact"),
    [
        ("k = -5", [{"K": [-5]}], True),
        ("k > 2 AND k < 9", [{"K": (3, 8)}], True),
        ("k BETWEEN 2 AND 9 OR k > 20", [{"K": (2, 9)}, {"K": (21, None)}], True),
        ("k = 2.5", [{}], False),
        ("k = 1 AND windowstart > '1970-01-02'", [{"K": [1], "WINDOWSTART": (86_400_001, None)}],
         True),
        ("k = 1 AND windowend IN (1000, '2000')",
         [{"K": [1], "WINDOWEND": [1000, 2000]}], True),
        ("day = '2024-01-01'", [{}], False),
    ],
)  # fmt: skip
def test_bounds_of_numbers_and_windows(
    where: str, boxes: list[dict[str, Any]], exact: bool
) -> None:
    assert bounds(where, WINDOWED) == (boxes, exact)


PAIR = Source(
    "P", "TABLE", "p", (Column("A", BIGINT), Column("B", STRING)), (Column("N", BIGINT),)
)  # fmt: skip
TWICE = "A comparison condition on the key column cannot be combined"
MULTI = "Multi-column sources must specify every key in the WHERE clause. Specified: [{}] Expected"


@pytest.mark.parametrize(
    ("where", "source", "said"),
    [
        ("id = 'a'", TABLE, ""),
        ("(id IN ('a', 'b') OR 'c' = id) AND n > 3", TABLE, ""),
        ("id > 'a' OR id < 'b'", TABLE, ""),
        ("id LIKE 'a%' AND id = 'b'", TABLE, ""),
        ("a = 1 AND b = 'x' OR b = 'y' AND a = 2", PAIR, ""),
        ("k = 1 AND WINDOWSTART > 3 AND WINDOWSTART < 9", WINDOWED, ""),
        ("n = 3", TABLE, "WHERE clause missing key column for disjunct: (n = 3)."),
        (
            "id = 'a' OR n = 3 AND n < 5",
            TABLE,
            "missing key column for disjunct: (n = 3 AND n <",
        ),
        ("a = 1", PAIR, MULTI.format("A")),
        ("b = 'x' AND n = 1 OR a = 1 AND b = 'x'", PAIR, MULTI.format("B")),
        ("id > 'a' AND id < 'c'", TABLE, TWICE),
        ("id BETWEEN 'a' AND 'c'", TABLE, TWICE),
        ("id = 'a' AND id IN ('a', 'b')", TABLE, TWICE),
        ("id <> 'a'", TABLE, "Bound on key columns '[`ID` STRING KEY]' must currently be '='."),
        ("id IS DISTINCT FROM 'a'", TABLE, "Bound on key columns"),
        ("n <> 3 AND id = 'a'", TABLE, ""),
        ("UCASE(id) = 'A'", TABLE, "A comparison must directly reference a key column."),
        ("id = CAST(n AS STRING)", TABLE, "A comparison must be between a key column and a resolv"),
        ("k IN (1, 2, k + 1)", WINDOWED, "A comparison must be between a key column and a resolv"),
        ("'a' LIKE 'a'", TABLE, "Like condition must be between strings."),
        ("NOT id = 'a'", TABLE, "Unsupported expression in WHERE clause: NOT id = 'a'."),
        ("id IS NULL", TABLE, "Unsupported expression in WHERE clause: id IS NULL."),
    ],
)
def test_what_ksqldb_would_scan_the_table_for(where: str, source: Source, said: str) -> None:
    obstacle = read(f"SELECT * FROM {source.name} WHERE {where}", source).keyed.obstacle
    assert bool(obstacle) == bool(said)
    assert said in obstacle


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (
            "a IN (1, '2') AND b = 'x'",
            "'2' can not be converted to the type of the key column: A",
        ),
        ("a IN (1, NULL) AND b = 'x'", "Primary key columns can not be NULL: (A = null)."),
        ("b IN ('x', NULL) AND a = 1", "Primary key columns can not be NULL: (B = null)."),
        ("b IN ('1', '2') AND a IN (1, 2)", ""),
        ("a = 1 AND b = 'x' AND n IN (1, NULL, '2')", ""),
        ("a IN (1, NULL)", ""),  # no keys are looked up
        ("NOT (a IN (1, NULL)) AND b = 'x'", ""),
    ],
)
def test_keys_that_ksqldb_does_not_look_up(where: str, said: str) -> None:
    wrong = read(f"SELECT * FROM p WHERE {where}", PAIR).keyed.wrong_key
    assert bool(wrong) == bool(said)
    assert said in wrong


def test_push_queries_look_up_nothing() -> None:
    pushed = read("SELECT * FROM p WHERE a IN (1, NULL) EMIT CHANGES", PAIR)
    assert (pushed.keyed.obstacle, pushed.keyed.wrong_key) == ("", "")


def test_a_condition_of_very_many_ways_to_hold_is_read_in_no_time() -> None:
    where = " AND ".join(f"(n = {i} OR n = {-i})" for i in range(1, 40))
    assert "missing key" in read(f"SELECT * FROM t WHERE {where}").keyed.obstacle


@pytest.mark.parametrize(
    ("select", "source", "keys"),
    [
        ("*", TABLE, {"ID"}),
        ("*", WINDOWED, {"K", "WINDOWSTART", "WINDOWEND"}),
        ("n, UCASE(id) AS id", TABLE, {"ID"}),
        ("id AS x, n", TABLE, set()),
        ("WINDOWEND AS e, WINDOWSTART", WINDOWED, {"WINDOWSTART"}),
    ],
)
def test_the_columns_that_ksqldb_calls_keys(select: str, source: Source, keys: set[str]) -> None:
    assert read(f"SELECT {select} FROM {source.name}", source).key_names == keys


def test_keys_of_other_types_are_evaluated() -> None:
    by_day = Source("D", "TABLE", "d", (DAY,), (Column("N", BIGINT),))
    ((box,), exact) = bounds("day = '2024-02-01'", by_day)
    assert [str(day) for day in box["DAY"]] == ["2024-02-01"]
    assert exact
    by_double = Source("F", "TABLE", "f", (Column("X", DOUBLE),), (Column("N", BIGINT),))
    assert bounds("x = 2", by_double) == ([{"X": [2.0]}], True)
    assert bounds("x = 0", by_double) == ([{}], False)  # -0.0 is equal to it, under another key


def test_so_many_alternatives_bound_nothing() -> None:
    many = " AND ".join(f"(id = 'a{i}' OR n = {i} OR id = 'b{i}')" for i in range(12))
    assert bounds(many) == ([{}], False)


def test_aggregates_are_named_once() -> None:
    grouped = read("SELECT n, COUNT(*), COUNT(*) + 1 FROM t GROUP BY n HAVING COUNT(*) > 1")
    assert grouped.grouping is not None
    columns = [(each.name, each.sql) for each in grouped.grouping.columns]
    assert columns == [("__g0", '"N"'), ("__a0", "count(*)")]
    assert grouped.grouping.groups == 1
    assert [o.ref for o in grouped.outputs] == ["__g0", "__a0", None]
