"""Records of every type with values at which engines differ, and every aggregate over them."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from holdfast.sql.plan.topology import compile_text
from holdfast.types.statements.topology import OFFSET, PARTITION, TIMESTAMP, TOMBSTONE, Query
from tests.support.values.special_values import VALUES

__all__ = ["BATCHES", "CALLS", "query_of"]

_OLD = dt.datetime(1960, 1, 1, 0, 0, 0, 7, tzinfo=dt.UTC)
_LEAP = dt.datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=dt.UTC)
_VALUES: dict[str, tuple[Any, ...]] = VALUES | {
    "F": (None, Decimal(0), Decimal("1" * 22 + ".111111"), Decimal("-" + "9" * 22 + ".999999")),
    "Y": (None, b"", b"\x00", b"\xff\x80", b"a", b"\x7f"),
    "DT": (None, dt.date(1970, 1, 1), dt.date(1950, 5, 5), dt.date(2024, 2, 29)),
    "TM": (None, 0, 1, 86_399_999),
    "TS": (None, dt.datetime(1970, 1, 1, tzinfo=dt.UTC), _OLD, _LEAP),
    "O": (None, True, False),
    "T": (None, "", "NaN", "a", "b", "é", "\U0001f3ac", "\uffff"),
    "AI": (None, [], [None], [2**31 - 1, 1], [-(2**31), None, -5]),
    "AD": (None, [], [None], [0.1, 0.2, 0.3], [-0.0], [math.nan, 1.0], [math.inf], [-math.inf]),
    "M": (None, [], [("a", 1), ("b", None)], [("b", None), ("a", 1)], [("a", 2)]),
    "S": (None, {"DD": dt.date(2024, 2, 29), "SS": _OLD}, {"DD": None, "SS": None},
          {"DD": None, "SS": _LEAP}),
    "AM": (None, [], [[("x", -0.0)], None], [[("x", 0.0), ("y", math.nan)]],
           [[("y", math.nan), ("x", 0.0)]]),
}  # fmt: skip
_DECLARED = """
CREATE STREAM s (id VARCHAR KEY, g VARCHAR, d DOUBLE, q DOUBLE, r DOUBLE, i INT, b BIGINT,
                 c DECIMAL(38, 2), e DECIMAL(9, 2), f DECIMAL(28, 6), t VARCHAR, y BYTES,
                 dt DATE, tm TIME, ts TIMESTAMP, o BOOLEAN, a ARRAY<BIGINT>, ai ARRAY<INT>,
                 ad ARRAY<DOUBLE>, m MAP<VARCHAR, BIGINT>, s STRUCT<dd DATE, ss TIMESTAMP>,
                 am ARRAY<MAP<VARCHAR, DOUBLE>>)
  WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
"""
_ORDERED = ("D", "I", "B", "C", "E", "F", "T", "Y", "DT", "TM", "TS")
_BY_OFFSET = ("", ", false", ", 2", ", 2, false")

CALLS = (
    "COUNT(*)", "COUNT(D)", "COUNT(AM)", "HISTOGRAM(T)",
    *(f"SUM({n})" for n in "DQRIBCEF"),
    *(f"SUM_LIST({n})" for n in ("A", "AI", "AD")),
    *(f"AVG({n})" for n in "DQIBCEF"),
    *(f"{f}({n})" for f in ("MIN", "MAX") for n in _ORDERED),
    *(f"{f}_BY_OFFSET({n}{o})" for f in ("EARLIEST", "LATEST") for n in ("D", "S", "AM", "T")
      for o in _BY_OFFSET),
    *(f"{f}({n})" for f in ("COLLECT_LIST", "COLLECT_SET", "COUNT_DISTINCT", "ATTR")
      for n in _VALUES),
    *(f"{f}({n}, 3)" for f in ("TOPK", "TOPKDISTINCT") for n in _ORDERED),
    "TOPK(D, T, 2)", "TOPK(T, M, S, 2)", "TOPK(TS, AM, DT, 3)",
    *(f"{f}({n})" for f in ("STDDEV_SAMPLE", "STDDEV_SAMP") for n in "QRIBE"),
    "CORRELATION(Q, R)", "CORRELATION(I, E)",
)  # fmt: skip


def query_of(*calls: str, window: str = "", emit: str = "batch") -> Query:
    """Those aggregates by G."""
    shown = ", ".join(f"{call} AS x{n}" for n, call in enumerate(calls))
    text = f"SELECT g, {shown} FROM s {window} GROUP BY g EMIT CHANGES;"
    query = compile_text(f"SET 'emit' = '{emit}'; {_DECLARED} CREATE TABLE made AS {text}").query(
        "MADE"
    )
    assert query is not None
    return query


def _row(number: int, group: str) -> dict[str, Any]:
    """Every column goes through its values at a pace of its own."""
    paces = zip((1, 2, 3, 5, 7, 11, 13), (3, 4, 0, 1, 5, 2, 6), strict=True)
    every = list(paces)
    found = {}
    for at, (name, values) in enumerate(_VALUES.items()):
        pace, start = every[at % len(every)]
        pace += pace % len(values) == 0
        found[name] = values[(number * pace + start) % len(values)]
    return {**found, "ID": "i", "G": group}


def _batches() -> list[pa.Table]:
    """Records of two topic partitions, whose offsets are mixed."""
    none = dict.fromkeys(_VALUES) | {"ID": "i"}
    first = [_row(n, "one" if n == 20 else f"g{n % 3}") for n in range(24)]
    first += [{**none, "G": "nulls"}] * 2
    second = [_row(n, f"g{n % 2}") for n in range(24, 33)] + [{**none, "G": "nulls"}]
    return [_table(first, 0), _table(second, 100)]


def _table(rows: list[dict[str, Any]], offset: int) -> pa.Table:
    kinds = [(c.name, c.type.arrow()) for c in query_of("COUNT(*)").source.columns]
    beside = [(PARTITION, pa.int32()), (OFFSET, pa.int64()), (TIMESTAMP, pa.int64())]
    schema = pa.schema([*kinds, *beside, (TOMBSTONE, pa.bool_())])
    placed = [
        {**row, PARTITION: n // 2 % 2, OFFSET: offset + n // 4 * 2 + n % 2, TIMESTAMP: n * 3 % 50,
         TOMBSTONE: False}
        for n, row in enumerate(rows)
    ]  # fmt: skip
    return pa.Table.from_pylist(placed, schema)


BATCHES = _batches()
