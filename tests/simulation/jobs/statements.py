"""Statements of the simulation."""

from __future__ import annotations

from functools import cache

from holdfast.sql.plan.topology import compile_text
from holdfast.types.statements.topology import Topology

__all__ = ["PAIRS", "STATELESS", "STATEMENTS", "WINDOWED", "topology"]

_COLUMNS = "(k VARCHAR KEY, v BIGINT, ts BIGINT)"
_SOURCES = f"""
CREATE STREAM s {_COLUMNS}
  WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=2, TIMESTAMP='ts');
CREATE STREAM r {_COLUMNS}
  WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON', PARTITIONS=2, TIMESTAMP='ts');
CREATE STREAM one {_COLUMNS}
  WITH (KAFKA_TOPIC='one', VALUE_FORMAT='JSON', PARTITIONS=1, TIMESTAMP='ts');
"""
_WINDOW = "WINDOW TUMBLING (SIZE 10 SECONDS, RETENTION 60 SECONDS, GRACE PERIOD 20 SECONDS)"
STATEMENTS = {
    "totals": "CREATE TABLE t AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY k "
    "EMIT CHANGES;",
    # A key whose sum is not positive has no row: keys leave the table, and come back.
    "extremes": "CREATE TABLE t AS SELECT k, COUNT(*) AS n, MIN(v) AS low, MAX(v) AS high, "
    "TOPK(v, 2) AS best, COUNT_DISTINCT(v) AS kinds FROM s GROUP BY k HAVING SUM(v) > 0 "
    "EMIT CHANGES;",
    "windows": "CREATE TABLE t AS SELECT k, COUNT(*) AS n, SUM(v) AS total, "
    f"COUNT_DISTINCT(v) AS kinds FROM s {_WINDOW} "
    "GROUP BY k EMIT CHANGES;",
    # Some of its records come after their window has closed; how many, the judge has to find out.
    "late": f"CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s {_WINDOW} GROUP BY k EMIT CHANGES;",
    "filter": "CREATE STREAM t AS SELECT k, v FROM s WHERE v > 0 EMIT CHANGES;",
    # Its condition is NULL for some records; its key depends on the value, its argument is made.
    "computed": "CREATE TABLE t AS SELECT CASE WHEN v < -3 THEN 'low' ELSE UCASE(k) END AS g, "
    "COUNT(*) AS n, SUM(v * 2 + 1) AS total FROM s WHERE v <> 3 "
    "GROUP BY CASE WHEN v < -3 THEN 'low' ELSE UCASE(k) END EMIT CHANGES;",
    # Only one topic partition has an order, by which the judge can go.
    "listed": "CREATE TABLE t AS SELECT k, COUNT(*) AS n, COLLECT_LIST(v) AS every, "
    "LATEST_BY_OFFSET(v) AS last, EARLIEST_BY_OFFSET(v) AS first FROM one GROUP BY k "
    "EMIT CHANGES;",
    "columns": "CREATE STREAM t AS SELECT k, v * v AS square, UCASE(k) AS name FROM s "
    "WHERE v < 5 EMIT CHANGES;",
}
STATELESS = frozenset({"filter", "columns"})

# Of the straight query and of the chain the same is expected, whatever drops or keeps it.
_KEPT = "WINDOW TUMBLING (SIZE 10 SECONDS, RETENTION 60 SECONDS, GRACE PERIOD 10 SECONDS)"
WINDOWED = {
    "straight": f"CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s {_KEPT} GROUP BY k "
    "EMIT CHANGES;",
    "chain": "CREATE STREAM good AS SELECT k, v FROM s WHERE v > 0 EMIT CHANGES; "
    f"CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM good {_KEPT} GROUP BY k EMIT CHANGES;",
    "final": f"CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s {_KEPT} GROUP BY k EMIT FINAL;",
    "final-chain": "CREATE STREAM good AS SELECT k, v FROM s WHERE v > 0 EMIT CHANGES; "
    f"CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM good {_KEPT} GROUP BY k EMIT FINAL;",
}

# All records of a history lie within the hour: every pair of one key is a result.
PAIRS = "pairs"
_PAIRS = (
    "CREATE STREAM t AS SELECT s.k, s.v AS v, r.v AS w FROM s JOIN r WITHIN 1 HOUR ON s.k = r.k "
    "EMIT CHANGES;"
)


@cache
def topology(name: str) -> Topology:
    """The Topology of a statement of `STATEMENTS` or `WINDOWED`, or of the join `PAIRS`."""
    return compile_text(_SOURCES + {**STATEMENTS, **WINDOWED, PAIRS: _PAIRS}[name])
