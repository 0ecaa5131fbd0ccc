"""What the judge cannot recompute is unknown, with the reason; never a wrong verdict."""

from __future__ import annotations

import pytest

from holdfast.judge.recompute.rehearsal import rehearse
from holdfast.judge.values import Untranslatable
from tests.unit.judge.rebuilding import unit_of

DECLARED = """
CREATE STREAM t2 (f VARCHAR KEY, x BIGINT)
  WITH (KAFKA_TOPIC='t2', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM sessions (k VARCHAR KEY, n BIGINT)
  WITH (KAFKA_TOPIC='sessions', VALUE_FORMAT='JSON', PARTITIONS=1, WINDOW_TYPE='SESSION');
"""
LIMITED = "SET 'ksql.functions.collect_list.limit'='2'; "
GROUPED = "CREATE TABLE s AS SELECT f, {} AS n FROM t2 GROUP BY f;"
HOURLY = "WINDOW TUMBLING (SIZE 1 HOUR)"
INTO = "INSERT INTO s SELECT w AS v, k FROM b PARTITION BY w;"


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (GROUPED.format("CORRELATION(x, x)"), "CORRELATION"),
        (GROUPED.format("TOPK(x, f, 2)"), "several columns"),
        (LIMITED + GROUPED.format("COLLECT_LIST(x)"), r"functions\.collect_list\.limit"),
        ("CREATE STREAM s WITH (VALUE_FORMAT='DELIMITED') AS SELECT k, v FROM a;", "DELIMITED"),
        ("CREATE STREAM s WITH (WRAP_SINGLE_VALUE=FALSE) AS SELECT k, v FROM a;", "stand alone"),
        ("CREATE STREAM s AS SELECT k, v FROM a; INSERT INTO s VALUES ('k', 1);", "INSERT INTO"),
        ("CREATE STREAM s AS SELECT k, EXPLODE(l) + 1 AS n FROM a;", "EXPLODE"),
    ],
)
def test_it_says_why(statements: str, reason: str) -> None:
    with pytest.raises(Untranslatable, match=reason):
        rehearse(unit_of(DECLARED + statements))


@pytest.mark.parametrize(
    "statements",
    [
        "CREATE STREAM s AS SELECT ROWKEY AS k, v FROM a FULL JOIN b WITHIN 1 DAY ON a.k = b.k;",
        "CREATE STREAM s AS SELECT a.k, v, x FROM a LEFT JOIN t ON a.k = t.k;",
        "CREATE TABLE s AS SELECT t.k, x, y FROM t JOIN u ON t.f = u.k WHERE x > 1;",
        "CREATE TABLE s AS SELECT f, COUNT(*) AS n FROM t GROUP BY f HAVING COUNT(*) > 1;",
        "CREATE TABLE s AS SELECT k, COUNT(*) AS n FROM a WINDOW SESSION (1 HOUR) GROUP BY k;",
        f"CREATE TABLE s AS SELECT k, COUNT(*) AS n FROM a {HOURLY} GROUP BY k EMIT FINAL;",
        f"CREATE STREAM s AS SELECT v, k FROM a PARTITION BY v; {INTO}",
        "CREATE STREAM s WITH (DEDUPLICATE_WITHIN='1 HOUR') AS SELECT k, v FROM a;",
        "CREATE STREAM s AS SELECT k, EXPLODE(l) AS l FROM a;",
        "CREATE STREAM s AS SELECT k, WINDOWSTART AS since, n FROM sessions;",
    ],
)
def test_what_it_knows_it_knows_beforehand(statements: str) -> None:
    rehearse(unit_of(DECLARED + statements))
