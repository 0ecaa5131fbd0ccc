"""explain, and the example files."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.sql import compile_text, explain
from holdfast.types.columns.schema import BIGINT, DOUBLE
from holdfast.types.statements.topology import AggregateStep, ProjectStep, Window, WindowKind

EXAMPLES = Path(__file__).parents[3] / "jobs" / "examples"

FILE = """\
SET 'auto.offset.reset' = 'latest';
SET 'state.partitions' = '4';
CREATE STREAM s (k STRING, v INT, ts BIGINT)
  WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON', TIMESTAMP='ts', PARTITIONS=2);
CREATE STREAM big AS SELECT k, v FROM s WHERE v > 10 PARTITION BY k;
CREATE TABLE t WITH (RETENTION_MS=1000) AS
  SELECT k, COUNT(*) AS n, SUM(v) / COUNT(*) AS mean FROM big
  WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES, GRACE PERIOD 90 SECONDS)
  GROUP BY k HAVING COUNT(*) > 1;
"""

EXPLAINED = """\
Topology: 1 declared source, 2 queries

Source STREAM S
    topic        in, 2 partitions, key NONE, value JSON
    value        K STRING, V INTEGER, TS BIGINT
    event time   TS

Query csas_big
    CREATE STREAM big AS SELECT k, v FROM s WHERE v > 10 PARTITION BY k
  Sub-topology 0: read, evaluate, write; one transaction per source topic partition
    source       STREAM S, topic in, 2 partitions, key NONE, value JSON
    event time   TS
    filter       ("V" > 10)
    key          K STRING = K
    value        V INTEGER = V
    sink         STREAM BIG, topic BIG, 2 partitions, key KAFKA, value JSON
    key          K STRING

Query ctas_t
    CREATE TABLE t WITH (RETENTION_MS=1000) AS
      SELECT k, COUNT(*) AS n, SUM(v) / COUNT(*) AS mean FROM big
      WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES, GRACE PERIOD 90 SECONDS)
      GROUP BY k HAVING COUNT(*) > 1
  Sub-topology 0: read, evaluate and pack, one task per source topic partition
    source       STREAM BIG, topic BIG, 2 partitions, key KAFKA, value JSON
    event time   the record's timestamp
    filter       none
    key          K STRING = K
    window       HOPPING size 1 hour, advance 10 minutes, grace 90 seconds, retention 3,690 seconds
    partial      __a0 BIGINT = COUNT(*)
    partial      __a1 INTEGER = SUM("V")
  Shuffle by key: pmod(hash(key), P), P = 4
  Sub-topology 1: state task, one transaction per state partition
    state        window store, P state partitions
    key codec    KAFKA of K STRING + window start
    merge        __a0, __a1
    changelog    <application.id>-ctas_t-changelog, P partitions, cleanup.policy=compact
    fingerprint  FINGERPRINT
    having       TRY(("__a0" > CAST(1 AS BIGINT)))
    value        N BIGINT = __a0
    value        MEAN BIGINT = MEAN_SQL
    sink         TABLE T, topic T, 2 partitions, key KAFKA, value JSON, HOPPING windows of 1 hour
    key          K STRING
    retention_ms 1000

Properties
  auto.offset.reset = latest
  state.partitions = 4
"""

MEAN_SQL = (
    'TRY(CAST(CAST((((CAST(CAST("__a1" AS BIGINT) AS HUGEINT) // nullif("__a0", 0))'
    " + 9223372036854775808) & 18446744073709551615) - 9223372036854775808 AS BIGINT) AS BIGINT))"
)


def test_explain_tells_the_whole_way() -> None:
    topology = compile_text(FILE)
    expected = EXPLAINED.replace("FINGERPRINT", topology.queries[1].fingerprint())
    expected = expected.replace("MEAN_SQL", MEAN_SQL)
    assert explain(topology) == expected


def test_compiling_twice_gives_the_same_value() -> None:
    assert compile_text(FILE) == compile_text(FILE)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.sql")), ids=lambda p: p.name)
def test_every_example_compiles_and_explains(path: Path) -> None:
    topology = compile_text(path.read_text())
    assert topology.queries
    assert all(q.id in explain(topology) for q in topology.queries)


def aggregate(name: str, query: str) -> AggregateStep:
    found = compile_text((EXAMPLES / name).read_text()).query(query)
    assert found is not None
    assert isinstance(found.step, AggregateStep)
    return found.step


def test_the_flights_example() -> None:
    carriers = aggregate("flights.sql", "FLIGHTS_PER_CARRIER")
    assert [k.column.name for k in carriers.keys] == ["CARRIER"]
    types = {o.column.name: o.column.type for o in carriers.outputs}
    assert types["FLIGHTS"] == BIGINT
    assert types["DEP_DELAY_TOTAL"] == types["DEP_DELAY_AVG"] == DOUBLE
    hours = aggregate("flights.sql", "FLIGHTS_PER_ORIGIN_HOUR")
    day = 86_400_000
    assert hours.window == Window(WindowKind.TUMBLING, 3_600_000, 3_600_000, day, 7 * day)


def test_the_movies_example_is_the_designs() -> None:
    movies = aggregate("movies.sql", "MOVIE_TICKETS_SOLD")
    assert [(a.function, tuple(map(str, a.args))) for a in movies.aggregates] == [
        ("COUNT", ('"TICKET_TOTAL_VALUE"',))
    ]


ROWS = """\
CREATE STREAM a (id INT KEY, v INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE STREAM b (id INT KEY, l ARRAY<INT>) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON');
CREATE TABLE t (id INT PRIMARY KEY, a_id INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE TABLE u (id INT PRIMARY KEY, n INT) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
CREATE STREAM pairs AS SELECT a.id, v, l FROM a LEFT JOIN b
  WITHIN (1 SECOND, 2 SECONDS) GRACE PERIOD 3 SECONDS ON a.id = b.id;
CREATE STREAM rows AS SELECT id, EXPLODE(l) AS x FROM b;
CREATE TABLE some AS SELECT id, a_id FROM t WHERE a_id > 3;
CREATE TABLE counts AS SELECT a_id, COUNT(*) AS c FROM t GROUP BY a_id;
CREATE TABLE foreigners AS SELECT t.id, n FROM t JOIN u ON a_id = u.id;
CREATE TABLE sessions AS SELECT id, COUNT(*) AS c FROM a WINDOW SESSION (5 SECONDS) GROUP BY id
  EMIT FINAL;
INSERT INTO a (id, v) VALUES (1, 2);
"""


@pytest.mark.parametrize(
    "line",
    [
        "left         STREAM A, topic a, key KAFKA, value JSON",
        "join         LEFT STREAM-STREAM",
        "within       1 second before, 2 seconds after, grace 3 seconds",
        "carries      A_V INTEGER = V",
        'rows of      KSQL_SYNTH_0 INTEGER = "L"',
        "state        which keys passed the filter; only those leave a tombstone",
        "changes      old and new row by 1 grouping expressions",
        "takes back   __a0 BIGINT = COUNT(*)",
        "sends        each row by its foreign key, for a INNER join",
        "window       SESSION gap 5 seconds",
        "emit         final",
        "value        V INTEGER = 2",
    ],
)
def test_every_kind_of_step_is_explained(line: str) -> None:
    assert line in explain(compile_text(ROWS))


def test_a_stateless_step_has_no_changelog() -> None:
    topology = compile_text(FILE)
    assert isinstance(topology.queries[0].step, ProjectStep)
    assert "csas_big-changelog" not in explain(topology)


def test_messages_are_told_as_other_programs_need_them() -> None:
    text = explain(
        compile_text(
            "CREATE STREAM s (k INT KEY, a STRING, b STRUCT<c BIGINT>) WITH (KAFKA_TOPIC='t',"
            " FORMAT='PROTOBUF_NOSR', VALUE_PROTOBUF_NULLABLE_REPRESENTATION='OPTIONAL');"
        )
    )
    lines = [line[17:] for line in text.splitlines()]
    assert lines[lines.index("message ConnectDefault1 {") + 1] == "  int32 K = 1;"
    first = lines.index("  optional string A = 1;")
    assert lines[first + 1 : first + 5] == [
        "  optional ConnectDefault2 B = 2;",
        "",
        "  message ConnectDefault2 {",
        "    optional int64 C = 1;",
    ]
