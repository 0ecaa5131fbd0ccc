"""Pull queries over tables in dicts: what is found, how, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import (
    InvalidStatement,
    Unsupported,
)
from holdfast.serve.queries import Ask
from tests.unit.serve.query.shop import HOUR, SCAN, Shop, all_rows


def test_a_look_up_by_key_gives_all_columns(loop: asyncio.Runner, goods: Shop) -> None:
    answer = loop.run(goods.engine.ask(Ask("SELECT * FROM goods WHERE id = 'cat';")))
    assert [c.name for c in answer.columns] == ["ID", "N", "PRICE", "TAG"]
    assert answer.rows == [("cat", 2, 1.0, "even")]
    assert answer.tables == ("GOODS",)
    assert not answer.push
    (state,) = answer.states.values()
    assert state.position > 0
    assert goods.reader.reads == {"get": 1, "scan": 0, "snapshot": 0, "since": 0}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id FROM goods WHERE id IN ('ant', 'fly', 'gnu')", [("ant",), ("fly",)]),
        ("SELECT id FROM goods WHERE id = 'ant' OR id = 'bee'", [("ant",), ("bee",)]),
        ("SELECT id FROM goods WHERE 'bee' = id", [("bee",)]),
        ("SELECT n + 1 AS m, UCASE(id) FROM goods WHERE id = 'bee'", [(2, "BEE")]),
        ("SELECT id FROM goods WHERE id IN ('ant', 'bee') AND n > 0", [("bee",)]),
        ("SELECT rowtime, id FROM goods g WHERE g.id = 'ant'", [(7, "ant")]),
        ("SELECT id FROM goods WHERE id = 'a' || 'nt'", [("ant",)]),
        ("SELECT id FROM goods WHERE id = 'ant' AND id = 'bee'", []),
        ("SELECT id FROM goods WHERE id IN ('ant', 'bee', 'cat') LIMIT 1", [("ant",)]),
        ("SELECT id FROM goods WHERE id = 'ant' LIMIT 0", []),
        ("SELECT COUNT(*), SUM(n) FROM goods WHERE id IN ('bee', 'cat')", [(2, 3)]),
    ],
)
def test_keys_are_looked_up(
    loop: asyncio.Runner, goods: Shop, sql: str, expected: list[tuple[Any, ...]]
) -> None:
    assert loop.run(goods.rows(sql)) == expected
    assert goods.reader.reads["scan"] == 0


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id FROM goods WHERE id >= 'dog'", ["dog", "eel", "fly"]),
        ("SELECT id FROM goods WHERE id > 'dog'", ["eel", "fly"]),
        ("SELECT id FROM goods WHERE id BETWEEN 'bee' AND 'dog' AND n <> 2", ["bee", "dog"]),
        ("SELECT id FROM goods WHERE id < 'bee' OR id = 'fly'", ["ant", "fly"]),
        ("SELECT id FROM goods WHERE 'bee' > id", ["ant"]),
        ("SELECT id FROM goods WHERE id > 'bee' AND id < 'bee'", []),
    ],
)
def test_ranges_of_keys_are_scanned_without_leave(
    loop: asyncio.Runner, goods: Shop, sql: str, expected: list[str]
) -> None:
    assert loop.run(goods.rows(sql)) == [(e,) for e in expected]
    assert all(scan[1:] != (b"", None) for scan in goods.reader.scanned)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id FROM goods WHERE tag = 'even'", [("ant",), ("cat",), ("eel",)]),
        ("SELECT id FROM goods WHERE NOT (id < 'fly')", [("fly",)]),
        ("SELECT id FROM goods WHERE id = 'ant' OR n = 3", [("ant",), ("dog",)]),
        ("SELECT COUNT(*) FROM goods", [(6,)]),
        ("SELECT COUNT(tag) c, MAX(id), AVG(price) FROM goods", [(3, "fly", 1.25)]),
        ("SELECT tag, COUNT(*) c FROM goods GROUP BY tag", [("even", 3), (None, 3)]),
        ("SELECT tag FROM goods GROUP BY tag HAVING SUM(n) > 6", [(None,)]),
        ("SELECT n % 2 AS odd, COLLECT_LIST(id) FROM goods WHERE n < 3 GROUP BY n % 2",
         [(0, ["ant", "cat"]), (1, ["bee"])]),
        ("SELECT COUNT(*) FROM goods WHERE n > 99", [(0,)]),
        ("SELECT TOPK(n, 2) FROM goods", [([5, 4],)]),
    ],
)  # fmt: skip
def test_everything_else_scans_when_it_is_asked_for(
    loop: asyncio.Runner, goods: Shop, sql: str, expected: list[tuple[Any, ...]]
) -> None:
    assert loop.run(goods.rows(sql, properties=SCAN)) == expected
    with pytest.raises(InvalidStatement, match=r"ksql.query.pull.table.scan.enabled=true"):
        loop.run(goods.rows(sql))


def test_a_limit_ends_a_scan_early(loop: asyncio.Runner, goods: Shop) -> None:
    assert len(loop.run(goods.rows("SELECT * FROM goods LIMIT 2", properties=SCAN))) == 2
    assert goods.reader.reads["scan"] < 3


def test_removed_rows_are_not_there(loop: asyncio.Runner, goods: Shop) -> None:
    goods.reader.commit({b"ant": None})
    assert loop.run(goods.rows("SELECT * FROM goods WHERE id = 'ant'")) == []


def test_several_key_columns_must_all_be_given(loop: asyncio.Runner) -> None:
    shop = Shop("PAIRS")
    for a in (1, 2):
        for b in ("x", "y"):
            shop.put(shop.table.key_of((a, b)), v=10 * a)
    found = shop.rows("SELECT * FROM pairs WHERE b IN ('x', 'y') AND a = 2")
    assert loop.run(found) == [(2, "x", 20), (2, "y", 20)]
    with pytest.raises(InvalidStatement, match=r"every key .* Specified: \[A\] Expected: \[A, B\]"):
        loop.run(shop.rows("SELECT * FROM pairs WHERE a = 2"))


def test_keys_that_are_numbers(loop: asyncio.Runner) -> None:
    shop = Shop("NUMBERS")
    for k in (-3, -1, 0, 2, 5_000_000_000):
        shop.put(shop.table.key_of((k,)), v=1)
    for sql, expected in [
        ("k = -3", [-3]),
        ("k = 5000000000", [5_000_000_000]),
        ("k >= -1 AND k < 2", [-1, 0]),
        ("k > -2", [-1, 0, 2, 5_000_000_000]),
        ("k <= 0", [-3, -1, 0]),
        ("k IN (2, 0)", [0, 2]),
    ]:
        found = loop.run(shop.rows(f"SELECT k FROM numbers WHERE {sql}"))
        assert sorted(k for (k,) in found) == expected
    with pytest.raises(InvalidStatement, match="table scan"):
        loop.run(shop.rows("SELECT k FROM numbers WHERE k = 2.5"))
    with pytest.raises(InvalidStatement, match=r"'0' can not be converted .* K BIGINT KEY"):
        loop.run(shop.rows("SELECT k FROM numbers WHERE k IN (2, '0')"))
    assert loop.run(shop.rows("SELECT k FROM numbers WHERE k = 2.0", properties=SCAN)) == [(2,)]


@pytest.mark.parametrize(
    ("bounds", "hours"),
    [
        ("", [0, 1, 2, 3]),
        ("AND windowstart = 3600000", [1]),
        ("AND windowstart >= 3600000 AND windowstart < 10800000", [1, 2]),
        ("AND windowend <= '1970-01-01T02:00:00'", [0, 1]),
        ("AND windowstart IN (0, 10800000)", [0, 3]),
        ("AND windowstart > 7200000 OR id = 'a' AND windowend = 3600000", [0, 3]),
    ],
)
def test_windows_of_a_key(loop: asyncio.Runner, bounds: str, hours: list[int]) -> None:
    shop = Shop("HOURLY")
    for hour in range(4):
        for key in (b"a", b"b"):
            start = (hour * HOUR).to_bytes(8, "big")
            shop.put(key + start, c=hour)
    answer = loop.run(shop.engine.ask(Ask(f"SELECT * FROM hourly WHERE id = 'a' {bounds}")))
    assert [c.name for c in answer.columns] == ["ID", "WINDOWSTART", "WINDOWEND", "C"]
    expected = [("a", h * HOUR, (h + 1) * HOUR, h) for h in hours]
    assert loop.run(all_rows(answer)) == sorted(expected, key=repr)
    assert shop.reader.reads["scan"] == 0


def test_windows_of_all_keys_can_be_grouped(loop: asyncio.Runner) -> None:
    shop = Shop("HOURLY")
    for hour in range(3):
        shop.put(b"k" + (hour * HOUR).to_bytes(8, "big"), c=hour)
    sql = "SELECT windowstart, SUM(c) s FROM hourly WHERE windowstart > 0 GROUP BY windowstart"
    assert loop.run(shop.rows(sql, properties=SCAN)) == [(HOUR, 1), (2 * HOUR, 2)]


def test_a_template_serves_other_keys_without_a_plan(
    loop: asyncio.Runner, goods: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loop.run(goods.rows("SELECT n FROM goods WHERE id = 'ant'")) == [(0,)]
    monkeypatch.setattr("holdfast.serve.query.plans.source_of", len)
    assert loop.run(goods.rows("SELECT n FROM goods WHERE id = 'dog'")) == [(3,)]
    assert loop.run(goods.rows("SELECT n FROM goods WHERE id = 'it''s'")) == []
    with pytest.raises(AttributeError):  # it would be parsed: it is another statement
        loop.run(goods.rows("SELECT price FROM goods WHERE id = 'dog'"))


def test_a_template_never_takes_a_value_for_a_key(loop: asyncio.Runner, goods: Shop) -> None:
    for text, expected in [
        ("SELECT 5 AS five, id FROM goods WHERE id = 'ant'", [(5, "ant")]),
        ("SELECT 6 AS five, id FROM goods WHERE id = 'ant'", [(6, "ant")]),
        ("SELECT id FROM goods WHERE id = 'ant' AND n = 0", [("ant",)]),
        ("SELECT id FROM goods WHERE id = 'ant' AND n = 1", []),
        ("SELECT id FROM goods WHERE id IN ('ant', 'bee') LIMIT 2", [("ant",), ("bee",)]),
        ("SELECT id FROM goods WHERE id IN ('ant', 'bee') LIMIT 1", [("ant",)]),
        ("SELECT id FROM goods -- WHERE id = 'x'\n WHERE id = 'ant'", [("ant",)]),
        ("SELECT 'it''s' AS x FROM goods WHERE id = 'ant'", [("it's",)]),
        ("SELECT 'it' AS x FROM goods WHERE id = 'ant'", [("it",)]),
    ]:
        assert loop.run(goods.rows(text)) == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM goods", "Missing WHERE clause"),
        ("SELECT * FROM goods WHERE n = 1", "WHERE clause missing key column"),
        ("SELECT * FROM good WHERE id = 'a'", "did you mean GOODS"),
        ("SELECT * FROM clicks WHERE id = 'a'", "is a stream"),
        ("SELECT * FROM goods JOIN pairs ON goods.n = pairs.v", "support JOIN"),
        ("SELECT * FROM goods PARTITION BY n", "support PARTITION BY"),
        ("SELECT * FROM goods EMIT FINAL", "EMIT FINAL"),
        ("SELECT * FROM goods LIMIT -1", "negative integers in the LIMIT"),
        ("SELECT nn FROM goods WHERE id = 'a'", "did you mean N"),
        ("SELECT * FROM goods WHERE id = NULL", "Comparison with NULL"),
        ("SELECT * FROM goods WHERE id = 5", "Cannot compare"),
        ("SELECT id, COUNT(*) FROM goods", "not part of GROUP BY: ID"),
        ("SELECT LATEST_BY_OFFSET(n) FROM goods", "not supported in a query of its own"),
        ("SELECT COUNT(*) FROM goods GROUP BY tag EMIT CHANGES", "support GROUP BY"),
        ("SELECT COUNT(*) FROM goods EMIT CHANGES", "aggregate functions"),
        ("SELECT 1; SELECT 2;", "FROM"),
        ("SHOW TABLES;", "only a SELECT"),
        ("", "exactly one"),
        ("SELECT * FROM goods WHERE id = 'a'; SELECT * FROM goods WHERE id = 'a';", "exactly one"),
    ],
)
def test_what_is_refused(loop: asyncio.Runner, goods: Shop, sql: str, message: str) -> None:
    with pytest.raises(InvalidStatement, match=message):
        loop.run(goods.rows(sql))


def test_columns_that_differ_in_case_are_not_mixed_up(loop: asyncio.Runner) -> None:
    shop = Shop("TWINS")
    shop.reader.commit({b"a": (7).to_bytes(8, "big") + b"1,2"})
    assert loop.run(shop.rows("SELECT n, `n` AS m FROM twins WHERE id = 'a'")) == [(1, 2)]
    with pytest.raises(Unsupported, match="differ only in case"):
        loop.run(shop.rows("SELECT n + 1 FROM twins WHERE id = 'a'"))


def test_a_long_statement_holds_nobody_up(loop: asyncio.Runner, goods: Shop) -> None:
    keys = ", ".join(f"'{number}'" for number in range(9_000))

    async def scenario() -> None:
        long = asyncio.create_task(goods.rows(f"SELECT id FROM goods WHERE id IN ('ant', {keys})"))
        turns = 0
        while not long.done():
            assert await goods.rows("SELECT n FROM goods WHERE id = 'bee'") == [(1,)]
            turns += 1
        assert await long == [("ant",)]
        assert turns > 1

    loop.run(scenario())


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id FROM goods ORDER BY id DESC LIMIT 2", [("fly",), ("eel",)]),
        ("SELECT id, n * -1 AS m FROM goods ORDER BY m LIMIT 2", [("fly", -5), ("eel", -4)]),
        ("SELECT tag, id FROM goods ORDER BY tag ASC, id DESC LIMIT 3",
         [("even", "eel"), ("even", "cat"), ("even", "ant")]),
        ("SELECT tag, COUNT(*) AS c FROM goods GROUP BY tag ORDER BY tag DESC",
         [("even", 3), (None, 3)]),  # NULL is last in both directions
        ("SELECT id FROM goods WHERE id IN ('ant', 'cat', 'bee') ORDER BY id DESC",
         [("cat",), ("bee",), ("ant",)]),
        ("SELECT id FROM goods g ORDER BY id LIMIT 1", [("ant",)]),
        ("SELECT id FROM goods ORDER BY id LIMIT 0", []),
        ("SELECT id, tag FROM goods WHERE n < 5 ORDER BY tag, id DESC",
         [("eel", "even"), ("cat", "even"), ("ant", "even"), ("dog", None), ("bee", None)]),
    ],
)  # fmt: skip
def test_rows_are_sorted_by_columns_of_the_result(
    loop: asyncio.Runner, goods: Shop, sql: str, expected: list[tuple[Any, ...]]
) -> None:
    async def in_order() -> list[tuple[Any, ...]]:
        answer = await goods.engine.ask(Ask(sql, SCAN))
        found = [tuple(row) for row in answer.rows or ()]
        async for batch in answer.batches:
            found += zip(*(c.to_pylist() for c in batch.columns), strict=True)
        return found

    assert loop.run(in_order()) == expected


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT id FROM goods ORDER BY idd", "did you mean ID?"),
        ("SELECT id FROM goods EMIT CHANGES ORDER BY id", "don't support ORDER BY"),
        ("SELECT id FROM goods LIMIT 3 ORDER BY id", "unexpected"),
        ("SELECT id, ARRAY[n] AS a FROM goods ORDER BY a", "takes no ARRAY column"),
    ],
)
def test_what_cannot_be_sorted_is_refused(
    loop: asyncio.Runner, goods: Shop, sql: str, told: str
) -> None:
    with pytest.raises(InvalidStatement) as refused:
        loop.run(goods.rows(sql, properties=SCAN))
    assert told in str(refused.value)
