"""A join of two streams in the simulation: Spark's work on its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from holdfast.sql.plan.topology import compile_text
from holdfast.tasks.processors.base import row_schema
from holdfast.transport.partitioner import state_partition
from holdfast.types.topology import Query, Topology
from tests.simulation.jobs.statements import HASH_OF_NULL, Record

__all__ = ["PAIRS", "pair_rows", "pairs_topology"]

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
            at = HASH_OF_NULL % partitions if key is None else state_partition(key, partitions)
            values = {"K": record.key, "V": record.value}
            row = {c.column.name: values[c.ref or ""] for c in each.columns}
            shares[at].append(row | _meta(record, side, key))
    schema = row_schema(query.inputs)
    return [[_encoded(rows, schema)] if rows else [] for rows in shares]


def _meta(record: Record, side: int, key: bytes | None) -> dict[str, Any]:
    return {
        "__key": key, "__side": side, "__partition": record.partition, "__offset": record.offset,
        "__timestamp": record.time_ms, "__tombstone": record.gone, "__seq": None,
    }  # fmt: skip


def _encoded(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> bytes:
    arrays = [pa.array([row.get(f.name) for row in rows], f.type) for f in schema]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return bytes(batch.serialize().to_pybytes())
