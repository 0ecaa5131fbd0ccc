"""CREATE OR REPLACE: what may change, and with which words the rest is refused."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text
from holdfast.types.statements.topology import Topology

SOURCES = """\
CREATE STREAM a (k INT KEY, v INT, w INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE STREAM a2 (k INT KEY, v INT, w INT) WITH (KAFKA_TOPIC='a2', VALUE_FORMAT='JSON');
CREATE STREAM b (k INT KEY, s STRUCT<v INT>) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON');
CREATE TABLE t (k INT PRIMARY KEY, x INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE STREAM ses (k INT KEY, v INT) WITH (KAFKA_TOPIC='ses', WINDOW_TYPE='SESSION');
"""
CHANGED = "columns are changed, missing or reordered: "


def compiled(*statements: str) -> Topology:
    return compile_text(SOURCES + "".join(statements))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("STREAM o AS SELECT k, v FROM a", "STREAM o AS SELECT * FROM a WHERE v > 1"),
        ("STREAM o AS SELECT * FROM a WHERE v > 1", "STREAM o AS SELECT k, 1 AS v, w FROM a"),
        ("STREAM o AS SELECT * FROM a PARTITION BY v", ("STREAM o AS SELECT v, w, k FROM a "
         "WHERE k > 1 PARTITION BY v")),
        ("TABLE o AS SELECT * FROM t", "TABLE o AS SELECT k, x, x + 1 AS y FROM t WHERE x > 1"),
        ("TABLE o AS SELECT k, COUNT(*) n FROM a GROUP BY k HAVING COUNT(*) > 1",
         "TABLE o AS SELECT k, COUNT(*) n, AS_VALUE(k) kk FROM a WHERE k > 3 GROUP BY k"),
        ("TABLE o AS SELECT k, SUM(v) n FROM a WHERE v > 1 GROUP BY k",
         "TABLE o AS SELECT k, SUM(v) n FROM a WHERE k > v GROUP BY k"),
    ],
)  # fmt: skip
def test_a_query_may_get_columns_and_another_filter(before: str, after: str) -> None:
    replaced = compiled(f"CREATE {before};", f"CREATE OR REPLACE {after};")
    (alone,) = compiled(f"CREATE OR REPLACE {after};").queries
    assert replaced.queries == (alone,)


def test_the_queries_stay_in_their_order_and_with_those_that_insert() -> None:
    topology = compiled(
        "CREATE STREAM o AS SELECT k, v FROM a; INSERT INTO o SELECT k, v FROM a2;"
        "CREATE STREAM p AS SELECT * FROM o; CREATE OR REPLACE STREAM o AS SELECT * FROM a;"
    )
    assert [q.id for q in topology.queries] == ["csas_o", "insert_o-1", "csas_p"]
    assert [c.name for c in topology.query("P").sink.value_columns] == ["V"]  # type: ignore[union-attr]  # there is one


S, T = "CREATE OR REPLACE STREAM o AS SELECT ", "CREATE OR REPLACE TABLE o AS SELECT "
REFUSED = [
    ("CREATE STREAM o AS SELECT * FROM a;", S + "k, v FROM a;", f"{CHANGED}[`W` INTEGER]"),
    ("CREATE STREAM o AS SELECT * FROM a;", S + "k, w, v FROM a;",
     f"{CHANGED}[`V` INTEGER, `W` INTEGER]"),
    ("CREATE STREAM o AS SELECT k, v FROM a;", S + "k, CAST(v AS STRING) v FROM a;",
     ("DataSource '`O`' has schema = `K` INTEGER KEY, `V` INTEGER which is not upgradeable to "
     "`K` INTEGER KEY, `V` STRING")),
    ("CREATE STREAM o AS SELECT * FROM a;", S + "* FROM a PARTITION BY v;",
     f"Key columns must be identical. The following key {CHANGED}[`K` INTEGER KEY]"),
    ("CREATE STREAM o AS SELECT * FROM a;",
     "CREATE OR REPLACE STREAM o WITH (KAFKA_TOPIC='z') AS SELECT * FROM a;",
     "has topic = O, key KAFKA, value JSON which is not upgradeable to z, key KAFKA"),
    ("CREATE STREAM o AS SELECT * FROM a;",
     "CREATE OR REPLACE STREAM o WITH (TIMESTAMP='v') AS SELECT k, CAST(v AS BIGINT) v FROM a;",
     "has timestampColumn = none which is not upgradeable to V\n\tAND DataSource '`O`' has schema"),
    ("CREATE TABLE o AS SELECT * FROM t;",
     "DROP TABLE o; CREATE STREAM o AS SELECT * FROM a; " + T + "* FROM t;",
     "DataSource '`O`' has type = KSTREAM which is not upgradeable to KTABLE"),
    ("CREATE STREAM o AS SELECT * FROM a;", S + "* FROM a2;",
     "StreamSource must have matching topicName. Values differ: a vs. a2"),
    ("CREATE STREAM o AS SELECT * FROM a;", S + "k, v, EXPLODE(ARRAY[w]) w FROM a;",
     "StreamSource must have matching class. Values differ: StreamSource vs. StreamFlatMap"),
    ("CREATE STREAM o AS SELECT v + 1 AS p, w FROM a PARTITION BY v + 1;",
     S + "v + 2 AS p, w FROM a PARTITION BY v + 2;", "must have matching keyExpressions"),
    ("CREATE STREAM o AS SELECT a.k, v FROM a JOIN t ON a.k = t.k;",
     S + "a.k, v FROM a JOIN t ON a.k = t.k WHERE v > 1;",
     "Upgrades not yet supported for StreamTableJoin"),
    ("CREATE STREAM o AS SELECT * FROM ses;", S + "* FROM ses WHERE v > 1;",
     "Upgrades not yet supported for WindowedStreamSource"),
    ("CREATE TABLE o AS SELECT k, COUNT(*) FROM a WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY k;",
     T + "k, COUNT(*) FROM a WINDOW TUMBLING (SIZE 1 MINUTE) WHERE v > 1 GROUP BY k;",
     "Upgrades not yet supported for StreamWindowedAggregate"),
    ("CREATE TABLE o AS SELECT x, COUNT(*) n FROM t GROUP BY x;",
     T + "x, COUNT(*) n FROM t WHERE k > 1 GROUP BY x;",
     "Upgrades not yet supported for TableAggregate"),
    ("CREATE TABLE o AS SELECT k, COUNT(*) n FROM a WHERE v > 0 GROUP BY k;",
     T + "k, COUNT(*) n FROM a GROUP BY k;",
     ("StreamAggregate must have matching columns not part of aggregate. "
     "Values differ: [`K`, `ROWTIME`, `V`] vs. [`K`, `ROWTIME`]")),
    ("CREATE TABLE o AS SELECT k, COUNT(*) n FROM b WHERE s->v > 0 GROUP BY k;",
     T + "k, COUNT(*) n FROM b GROUP BY k;",
     "Values differ: [`K`, `ROWTIME`, `S`] vs. [`K`, `ROWTIME`]"),
    ("CREATE TABLE o AS SELECT k, SUM(v) n FROM a GROUP BY k;",
     T + "k, MAX(v) n FROM a GROUP BY k;", "must have matching aggregate functions"),
    ("CREATE TABLE o AS SELECT k + 1 AS g, COUNT(*) n FROM a GROUP BY k + 1;",
     T + "k + 2 AS g, COUNT(*) n FROM a GROUP BY k + 2;", "must have matching group by clause"),
    ("", ("CREATE OR REPLACE STREAM a (k INT KEY, v INT) "
     "WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');"), f"{CHANGED}[`W` INTEGER]"),
    ("", ("CREATE OR REPLACE STREAM a (k INT KEY, v INT, w INT) "
     "WITH (KAFKA_TOPIC='a', VALUE_FORMAT='DELIMITED');"), "value JSON which is not upgradeable"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "message"), REFUSED)
def test_what_is_refused(before: str, after: str, message: str) -> None:
    with pytest.raises(InvalidStatement) as caught:
        compiled(before, after)
    assert message in str(caught.value)
