"""Values at which engines differ, and statements with every aggregate over columns of them."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from holdfast.sql.plan.topology import compile_text
from holdfast.types.statements.topology import Query

__all__ = ["EXACT", "ROUNDED", "VALUES", "aggregated", "declared"]

NAN, INF = math.nan, math.inf
NEGATIVE_NAN = math.copysign(math.nan, -1.0)
LARGEST = Decimal("9" * 36 + ".99")

# Column by column.  `Q` and `R` hold what adds up without rounding, `D` anything.
VALUES: dict[str, tuple[Any, ...]] = {
    "D": (None, NAN, NEGATIVE_NAN, 0.0, -0.0, INF, -INF, 1.5, 5e-324, 1.7976931348623157e308, -3.0),
    "Q": (None, NAN, 0.0, -0.0, INF, -INF, 1.5, 2.0, -3.25, 1024.0),
    "R": (None, 0.0, -0.0, 1.0, -2.0, 0.5),
    "I": (None, 0, 1, -7, 2**31 - 1, -(2**31)),
    "B": (None, 0, 1, -7, 2**63 - 1, -(2**63), 2**62),
    "C": (
        None,
        Decimal("0.00"),
        LARGEST,
        LARGEST.copy_negate(),
        Decimal("6" + "0" * 35 + ".00"),
        Decimal("-5" + "0" * 35 + ".00"),
    ),
    "E": (None, Decimal("0.00"), Decimal("9999999.99"), Decimal("-9999999.99"), Decimal("0.01")),
    "T": (None, "", "NaN", "a", "b"),
    "A": (None, [], [1, None], [2**63 - 1, 1]),
}

_DECLARED = """
CREATE STREAM s (id VARCHAR KEY, g VARCHAR, d DOUBLE, q DOUBLE, r DOUBLE, i INT, b BIGINT,
                 c DECIMAL(38, 2), e DECIMAL(9, 2), t VARCHAR, a ARRAY<BIGINT>)
  WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
"""

# What comes out bit by bit the same, its state too.
EXACT = (
    "COUNT(*)", "COUNT(d)", "SUM(q)", "SUM(i)", "SUM(b)", "SUM(c)", "SUM(e)", "SUM_LIST(a)",
    "AVG(q)", "AVG(i)", "AVG(b)", "MIN(d)", "MAX(d)", "MIN(b)", "MAX(c)", "MIN(t)",
    "LATEST_BY_OFFSET(d)", "EARLIEST_BY_OFFSET(d)", "LATEST_BY_OFFSET(d, false)",
    "LATEST_BY_OFFSET(d, 2)", "EARLIEST_BY_OFFSET(d, 2, false)", "COLLECT_LIST(d)",
    "COLLECT_SET(d)", "COUNT_DISTINCT(d)", "TOPK(d, 2)", "TOPK(d, t, 2)", "TOPK(b, 2)",
    "TOPKDISTINCT(d, 3)", "HISTOGRAM(t)", "ATTR(d)", "ATTR(t)", "CORRELATION(q, r)",
    "COUNT_DISTINCT(t)", "COUNT_DISTINCT(c)", "COUNT_DISTINCT(a)",
)  # fmt: skip
# What does but for its last digits, or the order of what its state holds.
ROUNDED = ("STDDEV_SAMPLE(r)", "STDDEV_SAMP(i)", "STDDEV_SAMP(q)", "AVG(e)")


def declared(name: str, select: str, *, emit: str = "batch", kind: str = "TABLE") -> Query:
    """The one query of a statement over `s`."""
    text = f"SET 'emit' = '{emit}'; {_DECLARED} CREATE {kind} {name} AS {select};"
    query = compile_text(text).query(name.upper())
    assert query is not None
    return query


def aggregated(calls: tuple[str, ...], window: str = "", *, emit: str = "batch") -> Query:
    """Those aggregates by `g`."""
    shown = ", ".join(f"{call} AS x{n}" for n, call in enumerate(calls))
    end = "EMIT FINAL" if emit == "final" else "EMIT CHANGES"
    over = f"SELECT g, {shown} FROM s {window} GROUP BY g {end}"
    return declared("made", over, emit="batch" if emit == "final" else emit)
