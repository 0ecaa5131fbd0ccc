"""One statement per kind of processor, and its batches.

There is one state partition, and one topic partition per source.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.sql.plan.topology import compile_text
from holdfast.types.ids import OffsetRange
from holdfast.types.statements.topology import Query, Topology

__all__ = ["BATCHES", "KINDS", "Sent", "range_of", "sent", "topology"]

BATCHES = 4
_SOURCES = """
CREATE STREAM a (k VARCHAR KEY, v BIGINT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM b (k VARCHAR KEY, w BIGINT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t (k VARCHAR PRIMARY KEY, x BIGINT, f VARCHAR)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE u (k VARCHAR PRIMARY KEY, y BIGINT)
  WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE small (k VARCHAR PRIMARY KEY, x BIGINT)
  WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=1, BROADCAST=TRUE);
"""
_HOURLY = "WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS)"
_WITHIN = "WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS"
KINDS = {
    "stream-stream": f"CREATE STREAM s AS SELECT ROWKEY AS k, v, w FROM a FULL JOIN b {_WITHIN} "
    "ON a.k = b.k EMIT CHANGES;",
    "stream-table": "CREATE STREAM s AS SELECT a.k, v, x FROM a LEFT JOIN t ON a.k = t.k "
    "EMIT CHANGES;",
    "broadcast": "CREATE STREAM s AS SELECT a.k, v, x FROM a JOIN small ON a.k = small.k "
    "EMIT CHANGES;",
    "table-table": "CREATE TABLE s AS SELECT ROWKEY AS k, x, y FROM t FULL JOIN u ON t.k = u.k "
    "EMIT CHANGES;",
    "foreign-key": "CREATE TABLE s AS SELECT t.k, x, y FROM t LEFT JOIN u ON t.f = u.k "
    "EMIT CHANGES;",
    "table-where": "CREATE TABLE s AS SELECT k, x FROM t WHERE x > 4 EMIT CHANGES;",
    "table-aggregate": "CREATE TABLE s AS SELECT f, COUNT(*) AS n, SUM(x) AS total FROM t "
    "GROUP BY f EMIT CHANGES;",
    "sessions": "CREATE TABLE s AS SELECT k, COUNT(*) AS n FROM a WINDOW SESSION (2 SECONDS) "
    "GROUP BY k EMIT CHANGES;",
    "final": f"CREATE TABLE s AS SELECT k, COUNT(*) AS n FROM a {_HOURLY} GROUP BY k EMIT FINAL;",
    "computed": "CREATE TABLE s AS SELECT v % 3 AS g, COUNT(*) AS n, SUM(v * 10) AS total FROM a "
    "WHERE v <> 4 GROUP BY v % 3 EMIT CHANGES;",
    "listed": "CREATE TABLE s AS SELECT k, COLLECT_LIST(v) AS every, "
    "LATEST_BY_OFFSET(v, 2) AS last FROM a GROUP BY k EMIT CHANGES;",
    "record": "SET 'emit' = 'record'; CREATE TABLE s AS SELECT k, COUNT(*) AS n, SUM(v) AS total "
    "FROM a GROUP BY k EMIT CHANGES;",
}


@dataclass(frozen=True)
class Sent:
    """A record of a topic."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def topology(kind: str) -> Topology:
    """The Topology of a kind's statement."""
    return compile_text(_SOURCES + KINDS[kind])


def sent(batch: int) -> dict[str, list[Sent]]:
    """One batch of records for the four declared topics; times overlap the last batch's."""
    rng = random.Random(batch)
    found: dict[str, list[Sent]] = {}
    for topic, value in (("a", "v"), ("b", "w"), ("t", "x"), ("u", "y")):
        records = []
        for _ in range(14):
            at = 1_000_000 + batch * 9_000 + rng.randrange(12_000)
            row = {value: rng.randrange(10), "f": f"k{rng.randrange(6)}"}
            dead = topic in "tu" and rng.random() < 0.2
            data = None if dead else json.dumps(row).encode()
            records.append(Sent(b"k%d" % rng.randrange(6), data, at))
        found[topic] = records
    return found


def range_of(query: Query, batch: int, lengths: Mapping[str, Sequence[int]]) -> OffsetRange:
    """The source offsets of a batch; `lengths`: how many records each batch of a topic has."""
    topics = [source.topic for source in query.sources]
    upto = {(t, 0): sum(lengths[t][: batch + 1]) for t in topics}
    since = {(t, 0): sum(lengths[t][:batch]) for t in topics}
    return OffsetRange.over(topics, since, upto)
