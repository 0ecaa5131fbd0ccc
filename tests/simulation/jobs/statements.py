"""Statements of the simulation, and the work on their input before the shuffle."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.sql.plan.topology import compile_text
from holdfast.tasks.evaluate.projected import stream_schema
from holdfast.types.topology import (
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOMBSTONE,
    ProjectStep,
    Query,
    Topology,
)
from tests.simulation.fakes.log import Entry
from tests.support.packed import packed_parts

__all__ = ["HASH_OF_NULL", "STATEMENTS", "Record", "decode", "partials", "projected", "topology"]

_SOURCE = """
CREATE STREAM s (k VARCHAR KEY, v BIGINT, ts BIGINT)
  WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=2, TIMESTAMP='ts');
"""
_WINDOW = "WINDOW TUMBLING (SIZE 10 SECONDS, RETENTION 60 SECONDS, GRACE PERIOD 20 SECONDS)"
STATEMENTS = {
    "totals": "CREATE TABLE t AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY k "
    "EMIT CHANGES;",
    # A key whose sum is not positive has no row: keys leave the table, and come back.
    "extremes": "CREATE TABLE t AS SELECT k, COUNT(*) AS n, MIN(v) AS low, MAX(v) AS high, "
    "TOPK(v, 2) AS best FROM s GROUP BY k HAVING SUM(v) > 0 EMIT CHANGES;",
    "windows": f"CREATE TABLE t AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s {_WINDOW} "
    "GROUP BY k EMIT CHANGES;",
    # Some of its records come after their window has closed; how many, the judge has to find out.
    "late": f"CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s {_WINDOW} GROUP BY k EMIT CHANGES;",
    "filter": "CREATE STREAM t AS SELECT k, v FROM s WHERE v > 0 EMIT CHANGES;",
}


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


@dataclass(frozen=True)
class Record:
    """A decoded input record; `value` None is SQL's null.

    Attributes:
        gone: it has no value at all and moves time on, by its timestamp.
    """

    partition: int
    offset: int
    key: str | None
    value: int | None
    time_ms: int
    gone: bool = False


HASH_OF_NULL = 42
"""Spark's: where rows without a key are."""

_ROW = pa.schema(
    [
        ("K", pa.string()), ("V", pa.int64()), (PARTITION, pa.int32()), (OFFSET, pa.int64()),
        (TIMESTAMP, pa.int64()), (TOMBSTONE, pa.bool_()),
    ]
)  # fmt: skip

_CACHE: dict[str, Topology] = {}


def topology(name: str) -> Topology:
    """The Topology of a statement of `STATEMENTS` or `WINDOWED`."""
    if name not in _CACHE:
        _CACHE[name] = compile_text(_SOURCE + {**STATEMENTS, **WINDOWED}[name])
    return _CACHE[name]


def decode(partition: int, entries: Iterable[Entry], *, tombstones: bool = False) -> list[Record]:
    """Ingest's rows for Spark: without records that are not JSON; tombstones if filtered out."""
    records = []
    for entry in entries:
        key = None if entry.key is None else entry.key.decode()
        if entry.value is None and tombstones:
            records.append(
                Record(partition, entry.offset, key, None, entry.timestamp_ms, gone=True)
            )
        try:
            fields = json.loads(entry.value or b"")
        except ValueError:
            continue
        fields = {name.lower(): value for name, value in fields.items()}
        time_ms = fields.get("ts", entry.timestamp_ms)
        records.append(Record(partition, entry.offset, key, fields["v"], time_ms))
    return records


def partials(query: Query, records: Iterable[Record], partitions: int) -> list[list[bytes]]:
    """The packed payload of each state partition."""
    rows = [(r.key, r.value, r.partition, r.offset, r.time_ms, r.gone) for r in records]
    columns = zip(*rows, strict=True) if rows else [()] * len(_ROW)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ROW, strict=True)]
    return packed_parts(query, [pa.RecordBatch.from_arrays(arrays, schema=_ROW)], partitions)


def projected(query: Query, records: Iterable[Record]) -> list[bytes]:
    """The payload of one topic partition of the stateless statement."""
    step = query.step
    assert isinstance(step, ProjectStep)
    passed = [r for r in records if r.value is not None and r.value > 0]
    if not passed:
        return []
    columns: list[list[Any]] = [
        [r.key for r in passed], [r.value for r in passed], [r.time_ms for r in passed],
        [False] * len(passed), [None] * len(passed),
    ]  # fmt: skip
    schema = stream_schema(step)
    return [_encoded(dict(zip(schema.names, columns, strict=True)), schema)]


def _encoded(columns: dict[str, list[Any]], schema: pa.Schema) -> bytes:
    arrays = [pa.array(columns[f.name], f.type) for f in schema]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return bytes(batch.serialize().to_pybytes())
