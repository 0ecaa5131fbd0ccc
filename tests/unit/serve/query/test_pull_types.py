"""Every type goes through look-ups, expressions and aggregates as it is; keys of every type too."""

from __future__ import annotations

import asyncio
import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from holdfast.serve.queries import Ask
from holdfast.serve.query import QueryEngine
from tests.support.serve.served import DictCatalog, DictReader, stored_json
from tests.unit.serve.query.shop import SCAN, all_rows

CATALOG = DictCatalog("""
CREATE TABLE t (id STRING PRIMARY KEY, b BOOLEAN, i INT, d DOUBLE, c DECIMAL(10, 2), y BYTES,
    o TIME, day DATE, ts TIMESTAMP, a ARRAY<INT>, m MAP<STRING, DOUBLE>,
    s STRUCT<x INT, z ARRAY<DECIMAL(4, 1)>>) WITH (KAFKA_TOPIC='t');
CREATE TABLE by_day (k DATE PRIMARY KEY, n INT) WITH (KAFKA_TOPIC='by_day', KEY_FORMAT='JSON');
CREATE TABLE by_price (k DECIMAL(5, 2) PRIMARY KEY, n INT)
  WITH (KAFKA_TOPIC='by_price', KEY_FORMAT='JSON');
CREATE TABLE by_pair (k STRUCT<a INT, b STRING> PRIMARY KEY, n INT)
  WITH (KAFKA_TOPIC='by_pair', KEY_FORMAT='JSON');
""")
VALUE = {
    "B": True, "I": 1, "D": 1.5, "C": 2.25, "Y": "aGk=", "O": 1000, "DAY": 5, "TS": 86_400_000,
    "A": [1, None], "M": {"k": 1.0}, "S": {"X": 1, "Z": [1.5]},
}  # fmt: skip
TIME = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
DAY = dt.date(1970, 1, 6)
PRICE = Decimal("2.25")
STRUCT = {"X": 1, "Z": [Decimal("1.5")]}
ROW = ("a", True, 1, 1.5, PRICE, b"hi", 1000, DAY, TIME, [1, None], [("k", 1.0)], STRUCT)


def found(name: str, rows: dict[bytes, bytes], sql: str) -> tuple[list[Any], int]:
    """The rows of a query, and how many scans they took."""

    async def run() -> tuple[list[Any], int]:
        reader = DictReader(CATALOG.table(name))
        reader.commit(dict(rows))
        engine = QueryEngine(CATALOG, reader)
        rows_ = await all_rows(await engine.ask(Ask(sql, properties=SCAN)))
        await engine.aclose()
        return rows_, reader.reads["scan"]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("*", ROW),
        ("s->z, a[1], m['k'], c * 2, ts, o, y", ([Decimal("1.5")], 1, 1.0, PRICE * 2, TIME, 1000,
                                                 b"hi")),
        ("COLLECT_LIST(ts), MAX(day), MIN(c), AVG(c), HISTOGRAM(id), COLLECT_LIST(s), TOPK(c, 1)",
         ([TIME], DAY, PRICE, 2.25, [("a", 1)], [STRUCT], [PRICE])),
    ],
)  # fmt: skip
def test_values_of_every_type(items: str, expected: tuple[Any, ...]) -> None:
    for condition in ("id = 'a'", "i = 1", "day = '1970-01-06' AND ts > '1970-01-01'"):
        sql = f"SELECT {items} FROM t WHERE {condition}"
        assert found("t", {b"a": stored_json(5, VALUE)}, sql)[0] == [expected]


@pytest.mark.parametrize(
    ("name", "key", "constant"),
    [
        ("by_day", dt.date(2024, 1, 2), "'2024-01-02'"),
        ("by_price", Decimal("1.50"), "1.5"),
        ("by_pair", {"A": 1, "B": "x"}, "STRUCT(a := 1, b := 'x')"),
    ],
)
def test_keys_of_other_types_are_looked_up(name: str, key: Any, constant: str) -> None:
    stored = {CATALOG.table(name).key_of((key,)): stored_json(1, {"N": 7})}
    sql = f"SELECT * FROM {name} WHERE k = {constant}"
    assert found(name, stored, sql) == ([(key, 7)], 0)
