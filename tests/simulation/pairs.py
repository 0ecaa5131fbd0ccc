"""A join of two streams in the simulation: what Spark makes of its input, and what must come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from holdfast.chaos.verdict import Finding, JobVerdict, TableVerdict, Verdict
from holdfast.sql.plan import compile_text
from holdfast.tasks.processors.base import row_schema
from holdfast.transport.partitioner import state_partition
from holdfast.types.topology import Query, Topology
from tests.simulation.fake_kafka import FakeKafka
from tests.simulation.statements import Record, decode

__all__ = ["PAIRS", "judged_pairs", "pair_rows", "pairs_topology"]

PAIRS = "pairs"
_SQL = """
CREATE STREAM s (k VARCHAR KEY, v BIGINT, ts BIGINT)
  WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=2, TIMESTAMP='ts');
CREATE STREAM r (k VARCHAR KEY, v BIGINT, ts BIGINT)
  WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON', PARTITIONS=2, TIMESTAMP='ts');
CREATE STREAM t AS SELECT s.k, s.v AS v, r.v AS w FROM s JOIN r WITHIN 1 HOUR ON s.k = r.k
  EMIT CHANGES;
"""


def pairs_topology() -> Topology:
    """All records of a history lie within the hour: every pair of one key is a result."""
    return compile_text(_SQL)


def pair_rows(
    query: Query, records: Mapping[str, Sequence[Record]], partitions: int
) -> list[list[bytes]]:
    """The shuffled payload of each state partition; `records` by topic."""
    shares: list[list[dict[str, Any]]] = [[] for _ in range(partitions)]
    for side, each in enumerate(query.inputs):
        for record in records[each.source.topic]:
            key = None if record.key is None else record.key.encode()
            at = 0 if key is None else state_partition(key, partitions)
            values = {"`K`": record.key, "`V`": record.value}
            row = {c.column.name: values[c.spark] for c in each.columns}
            shares[at].append(row | _meta(record, side, key))
    schema = row_schema(query.inputs)
    return [[_encoded(rows, schema)] if rows else [] for rows in shares]


def _meta(record: Record, side: int, key: bytes | None) -> dict[str, Any]:
    return {
        "__key": key, "__side": side, "__partition": record.partition, "__offset": record.offset,
        "__timestamp": record.time_ms, "__tombstone": False, "__seq": None,
    }  # fmt: skip


def _encoded(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> bytes:
    arrays = [pa.array([row.get(f.name) for row in rows], f.type) for f in schema]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return bytes(batch.serialize().to_pybytes())


def judged_pairs(topology: Topology, kafka: FakeKafka) -> JobVerdict:
    """Every pair is in the sink, once."""
    query = topology.queries[0]
    left, right = (_visible(kafka, source.topic) for source in query.sources)
    expected = Counter((a.key, a.value, b.value) for a in left for b in right if a.key == b.key)
    actual: Counter[tuple[Any, ...]] = Counter()
    for log in kafka.topics[query.sink.topic].logs:
        for entry in log.visible(0, log.stable_end, 1 << 30):
            row = orjson.loads(entry.value or b"{}")
            actual[(entry.key or b"").decode(), row["V"], row["W"]] += 1
    findings = _findings(expected - actual, "missing") + _findings(actual - expected, "too many")
    table = TableVerdict(query.sink.name, findings, len(left) + len(right), actual.total())
    return JobVerdict("app", (table,), 0.0)


def _visible(kafka: FakeKafka, topic: str) -> list[Record]:
    found = []
    for p, log in enumerate(kafka.topics[topic].logs):
        found += decode(p, log.visible(0, log.stable_end, 1 << 30))
    return [record for record in found if record.key is not None]


def _findings(wrong: Counter[tuple[Any, ...]], what: str) -> tuple[Finding, ...]:
    if not wrong:
        return ()
    return (Finding("pairs", Verdict.INVALID, f"{wrong.total()} pairs are {what}: {wrong}"),)
