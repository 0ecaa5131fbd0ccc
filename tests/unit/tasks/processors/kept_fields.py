"""Fields of a query whose change keeps the rows that are there, each with statements that differ
in it and in nothing else: `tests/simulation/test_kept_rows.py` runs them, one after the other.
"""

from __future__ import annotations

__all__ = ["KEPT_FIELDS"]

_SOURCES = """
CREATE STREAM a (k VARCHAR KEY, v BIGINT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t (k VARCHAR PRIMARY KEY, x BIGINT)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE u (k VARCHAR PRIMARY KEY, y BIGINT)
  WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON', PARTITIONS=1);
"""
_COUNT = "CREATE TABLE s AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a GROUP BY k;"
_JOIN = "CREATE TABLE s AS SELECT t.k, x, y FROM t LEFT JOIN u ON t.k = u.k;"
_WINDOWS = (
    "CREATE TABLE s AS SELECT k, COUNT(*) AS n FROM a "
    "WINDOW TUMBLING (SIZE 5 SECONDS, RETENTION {}, GRACE PERIOD 4 SECONDS) GROUP BY k;"
)
_PAIRS = {
    ("Query", "statement"): (_COUNT, _COUNT.replace("COUNT", "count").replace(" FROM", "\nFROM")),
    ("Query", "properties"): (
        _COUNT,
        _COUNT.replace("s AS SELECT", "s WITH (RETENTION_MS=1000) AS SELECT"),
    ),
    ("AggregateStep", "emit"): (f"SET 'emit'='record'; {_COUNT}", _COUNT),
    ("JoinStep", "copartitioned"): (_JOIN, f"SET 'ksqldb.differences'='none'; {_JOIN}"),
    ("JoinStep", "emit"): (_JOIN, f"SET 'emit'='record'; {_JOIN}"),
    ("Window", "retention_ms"): (_WINDOWS.format("9 SECONDS"), _WINDOWS.format("30 SECONDS")),
    ("Sink", "partitions"): (_COUNT, _COUNT.replace("s AS S", "s WITH (PARTITIONS=4) AS S")),
    ("Sink", "replicas"): (_COUNT, _COUNT.replace("s AS S", "s WITH (REPLICAS=2) AS S")),
}
_OF_SOURCE = {
    ("Source", "partitions"): (_COUNT, "PARTITIONS=1", "PARTITIONS=3"),
    ("Source", "replicas"): (_COUNT, "PARTITIONS=1", "PARTITIONS=1, REPLICAS=2"),
}
KEPT_FIELDS: dict[tuple[str, str], tuple[str, str]] = {
    place: (_SOURCES + before, _SOURCES + after) for place, (before, after) in _PAIRS.items()
} | {
    place: (_SOURCES + text, _SOURCES.replace(was, now) + text)
    for place, (text, was, now) in _OF_SOURCE.items()
}
