"""INSERT, DROP, ALTER, TERMINATE, ASSERT and OR REPLACE: what they leave of a file."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text
from holdfast.types.columns.schema import BIGINT, INTEGER, Column
from holdfast.types.statements.topology import JoinStep, ProjectStep, Topology, statements
from tests.support.values.expressions import named

SOURCES = """\
CREATE STREAM a (k INT KEY, v INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE STREAM b (k INT KEY, v BIGINT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON');
CREATE TABLE t (k INT PRIMARY KEY, v BIGINT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE SOURCE STREAM r (k INT KEY, v BIGINT) WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON');
CREATE STREAM h (k INT KEY, v BIGINT, x BYTES HEADER('x'))
  WITH (KAFKA_TOPIC='h', VALUE_FORMAT='JSON');
"""


def compiled(statements: str) -> Topology:
    return compile_text(SOURCES + statements)


def test_several_queries_write_one_stream() -> None:
    topology = compiled(
        "CREATE STREAM o AS SELECT * FROM b;"
        "INSERT INTO o SELECT k, v FROM a; INSERT INTO o SELECT k, v FROM r WHERE v > 1;"
    )
    assert [q.id for q in topology.queries] == ["csas_o", "insert_o-1", "insert_o-2"]
    assert {q.sink.topic for q in topology.queries} == {"O"}
    step = topology.queries[1].step
    assert isinstance(step, ProjectStep)
    assert step.outputs == (
        named('TRY(CAST("V" AS BIGINT))', Column("V", BIGINT), "V", released="CAST(`V` AS BIGINT)"),
    )


def test_a_join_is_inserted_with_its_columns_widened() -> None:
    query = compiled(
        "INSERT INTO b SELECT a.k AS k, a.v AS v FROM a JOIN b WITHIN 1 DAY ON a.k = b.k;"
    ).queries[0]
    assert isinstance(query.step, JoinStep)
    assert query.step.outputs[0].sql == 'TRY(CAST("A_V" AS BIGINT))'
    assert query.sink.topic == "b"


def test_inserted_values_are_constants_per_column() -> None:
    topology = compiled("INSERT INTO b (v, rowtime, k) VALUES (2, 1000, 1 + 1); "
                        "INSERT INTO t (k) VALUES (7);")  # fmt: skip
    first, second = topology.insertions
    assert str(first.timestamp) == "CAST(1000 AS BIGINT)"
    assert [(v.column.name, v.expression.canonical) for v in first.values] == [
        ("K", "(1 + 1)"), ("V", "CAST(2 AS BIGINT)"),
    ]  # fmt: skip
    assert [v.sql for v in second.values] == ["7", "CAST(NULL AS BIGINT)"]
    assert (second.source.name, second.timestamp) == ("T", None)


def test_a_dropped_stream_takes_its_query_along() -> None:
    topology = compiled(
        "CREATE STREAM o AS SELECT a.k, a.v FROM a JOIN b WITHIN 1 DAY ON a.k = b.k "
        "PARTITION BY a.v; DROP STREAM o; DROP STREAM IF EXISTS nothing; DROP STREAM b;"
    )
    assert topology.queries == ()
    assert [s.name for s in topology.sources] == ["A", "T", "R", "H"]


def test_a_terminated_query_leaves_its_stream() -> None:
    topology = compiled(
        "CREATE STREAM o AS SELECT * FROM a; CREATE STREAM p AS SELECT * FROM o;TERMINATE CSAS_O_3;"
    )
    assert [q.id for q in topology.queries] == ["csas_p"]


def test_or_replace_puts_the_new_one_in_its_place() -> None:
    topology = compiled(
        "CREATE OR REPLACE STREAM a (k INT KEY, v INT, w INT) "
        "WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');"
        "CREATE STREAM o AS SELECT k, v FROM a; CREATE OR REPLACE STREAM o AS SELECT * FROM a;"
    )
    assert len(topology.queries) == 1
    assert [c.name for c in topology.queries[0].sink.value_columns] == ["V", "W"]


def test_each_statement_has_queries_of_its_own() -> None:
    topology = compiled(
        "CREATE TABLE a_x AS SELECT v, COUNT(*) n FROM t GROUP BY v;"
        "CREATE STREAM p AS SELECT * FROM a; DROP TABLE a_x;"
        "CREATE TABLE x AS SELECT v, COUNT(*) n FROM t GROUP BY v;"
    )
    ids = {i: [q.id for q in of] for i, of in statements(topology.queries).items()}
    assert list(ids) == ["csas_p", "ctas_x"]
    assert len(ids["ctas_x"]) == 2
    assert len(topology.queries) == 3


def test_added_columns_come_last() -> None:
    topology = compiled("ALTER STREAM a ADD COLUMN w STRING; CREATE STREAM o AS SELECT * FROM a;")
    assert [c.name for c in topology.queries[0].sink.value_columns] == ["V", "W"]
    assert [c.name for c in topology.sources[0].value_columns] == ["V", "W"]


def test_assertions_that_hold_leave_nothing() -> None:
    topology = compiled(
        "ASSERT STREAM a (k INT KEY, v INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');"
        "ASSERT TOPIC 'a'; ASSERT NOT EXISTS TOPIC 'zz';"
    )
    assert not topology.queries


def test_a_source_can_be_written_to_under_its_formats() -> None:
    sink = compiled("INSERT INTO b SELECT * FROM a;").queries[0].sink
    assert (sink.topic, sink.key_columns) == ("b", (Column("K", INTEGER),))


REFUSED = [
    ("INSERT INTO nope SELECT * FROM a;", "Source `NOPE` does not exist."),
    ("INSERT INTO t SELECT * FROM a;", "can only be used to insert into a stream. T is a table."),
    ("INSERT INTO r SELECT * FROM b;", "Cannot insert into read-only stream: R"),
    ("INSERT INTO h SELECT * FROM b;", "Cannot insert into H because it has header columns"),
    ("INSERT INTO a SELECT * FROM b;", "Incompatible schema between results and sink"),
    ("INSERT INTO b SELECT k, v, v AS w FROM b;", "Result schema is `K` INTEGER KEY, `V` BIGINT"),
    ("INSERT INTO `a` VALUES (1, 2);", "Did you mean A? Hint: try removing double quotes"),
    ("INSERT INTO r VALUES (1, 2);", "Cannot insert values into read-only stream: R"),
    ("INSERT INTO h (k, x) VALUES (1, NULL);", "Cannot insert into HEADER columns: X"),
    ("INSERT INTO a VALUES (1);", "Expected a value for each column."),
    ("INSERT INTO a VALUES ('one', 2);", "Expected type INTEGER for field `K` but got STRING"),
    ("INSERT INTO a (k, z) VALUES (1, 2);", "Column name `Z` does not exist."),
    ("INSERT INTO t (v) VALUES (2);", "Value for primary key column(s) `K` is required"),
    ("DROP STREAM nope;", "Stream NOPE does not exist."),
    ("DROP TABLE a;", "Incompatible data source type is STREAM, but statement was DROP TABLE"),
    ("DROP STREAM r DELETE TOPIC;", "Cannot delete topic for read-only source: R"),
    ("CREATE STREAM o AS SELECT * FROM a; DROP STREAM a;", "read from this source: [O]"),
    ("ALTER STREAM z ADD w INT;", "Source Z does not exist."),
    ("ALTER STREAM r ADD w INT;", "ALTER operations are not supported on source streams."),
    ("ALTER STREAM a ADD v INT;", "Cannot add column `V` to schema."),
    ("CREATE STREAM o AS SELECT * FROM a; ALTER STREAM o ADD w INT;",
     "ALTER command is not supported for CREATE ... AS statements."),
    (("CREATE OR REPLACE SOURCE STREAM a (k INT KEY, v INT) "
     "WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');"),
     "Cannot add stream 'A': CREATE OR REPLACE is not supported on source streams."),
    ("TERMINATE csas_nope;", "Unknown queryId: CSAS_NOPE"),
    ("ASSERT STREAM a (k INT KEY, v STRING) WITH (KAFKA_TOPIC='a');", "does not match actual"),
    ("ASSERT TABLE a WITH (KAFKA_TOPIC='a');", "Expected type does not match actual for source A"),
    ("ASSERT STREAM a WITH (KAFKA_TOPIC='b');",
     "Expected kafka topic does not match actual for source A"),
    ("ASSERT STREAM a WITH (FORMAT='JSON');", "Expected key format does not match actual"),
    ("ASSERT STREAM a WITH (VALUE_FORMAT='KAFKA');", "Expected value format does not match"),
    ("ASSERT STREAM a WITH (WRAP_SINGLE_VALUE=false);",
     "Expected value serde features does not match actual for source A"),
    ("ASSERT STREAM a WITH (TIMESTAMP='v');", "Expected timestamp column does not match actual"),
    (("CREATE STREAM o WITH (TIMESTAMP='d', TIMESTAMP_FORMAT='yyyy') AS SELECT k, 'x' AS d FROM a; "
      "ASSERT STREAM o WITH (TIMESTAMP='D', TIMESTAMP_FORMAT='mm');"),
     "Expected timestamp format does not match actual for source O"),
    ("CREATE STREAM n (x BYTES HEADER('x'), y BYTES HEADER('x')) WITH (KAFKA_TOPIC='n');",
     "Schema already contains a HEADER('x') column."),
    (("CREATE STREAM n (x ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, y BYTES HEADER('x')) "
      "WITH (KAFKA_TOPIC='n');"), "Schema already contains a HEADERS column."),
    ("ASSERT TOPIC 'zz';", "Topic zz does not exist."),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "message"), REFUSED)
def test_what_is_refused(statements: str, message: str) -> None:
    with pytest.raises(InvalidStatement) as caught:
        compiled(statements)
    assert message in str(caught.value)
