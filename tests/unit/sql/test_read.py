"""SELECT by itself: where it may stand, what it means, which keys its WHERE leaves."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidStatement, Unsupported
from holdfast.sql.parse import Place, parse
from holdfast.sql.plan_read import parse_read, plan_read
from holdfast.sql.reads import Read
from holdfast.sql.script import Script
from holdfast.sql.statements import SelectQuery, Show
from holdfast.types.schema import BIGINT, DOUBLE, STRING, Base, Column, SqlType
from holdfast.types.sources import Source, WindowKind

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
    shown, asked = parse(Script(text), place=Place.SERVER)
    assert isinstance(shown, Show)
    assert isinstance(asked, SelectQuery)
    assert asked.select.changes
    assert (asked.limit, asked.text) == (3, "SELECT * FROM t EMIT CHANGES LIMIT 3")
    for place in (Place.FILE, Place.SESSION, Place.TEST):
        with pytest.raises(Unsupported, match="a query server answers them"):
            parse(Script("SELECT * FROM t;"), place=place)


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
    assert grouped.grouping.columns == (("__g0", '"N"'), ("__a0", "count(*)"))
    assert grouped.grouping.groups == 1
    assert [o.ref for o in grouped.outputs] == ["__g0", "__a0", None]
