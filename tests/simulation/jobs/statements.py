"""Statements of the simulation, and Spark's work on their input before the shuffle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.sql.plan.topology import compile_text
from holdfast.tasks.evaluate.projected import stream_schema
from holdfast.tasks.processors.aggregates.aggregate import AggregateProcessor
from holdfast.tasks.processors.aggregates.state import WINDOW, by_record, partial_columns
from holdfast.tasks.processors.base import KEY
from holdfast.transport.partitioner import state_partition
from holdfast.types.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    AggregateStep,
    ProjectStep,
    Query,
    Topology,
)
from tests.simulation.fakes.log import Entry

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


_Partial = Callable[[Sequence[Record]], Any]


def _of_values(fold: Callable[[list[int]], Any]) -> _Partial:
    def partial(records: Sequence[Record]) -> Any:
        values = [r.value for r in records if r.value is not None]
        return fold(values) if values else None

    return partial


_PARTIALS: dict[str, _Partial] = {
    "count(1)": len,
    "max(`__timestamp`)": lambda records: max(r.time_ms for r in records),
    "sum(`V`)": _of_values(sum),
    "min(`V`)": _of_values(min),
    "max(`V`)": _of_values(max),
    "transform(array_sort(collect_list(struct(`__offset`, `__partition`, `V` AS v)) "
    "FILTER (WHERE (`V`) IS NOT NULL)), e -> e.v)": lambda records: [
        r.value for r in records if r.value is not None
    ],
}


def partials(query: Query, records: Iterable[Record], partitions: int) -> list[list[bytes]]:
    """The shuffled payload of each state partition: what Spark's partial aggregation gives."""
    step = query.step
    assert isinstance(step, AggregateStep)
    shares: list[dict[tuple[bytes | None, int], list[Record]]] = [{} for _ in range(partitions)]
    for record in records:
        key = None if record.key is None else record.key.encode()
        at = 0 if key is None else state_partition(key, partitions)
        size = step.window.size_ms if step.window is not None else 1 << 60
        start = record.time_ms - record.time_ms % size
        shares[at].setdefault((key, start), []).append(record)
    if by_record(step):
        return [_by_record(query, share) for share in shares]
    schema = AggregateProcessor(query).schema
    return [[_encoded(_columns(step, share), schema)] if share else [] for share in shares]


def _by_record(
    query: Query, groups: Mapping[tuple[bytes | None, int], list[Record]]
) -> list[bytes]:
    """A row for each record, in the order of the log."""
    step = query.step
    assert isinstance(step, AggregateStep)
    rows = [(key, start, r) for (key, start), records in groups.items() for r in records]
    rows.sort(key=lambda row: (row[2].partition, row[2].offset))
    if not rows:
        return []
    columns: dict[str, list[Any]] = {
        KEY: [key for key, _, _ in rows], WINDOW: [start for _, start, _ in rows],
        PARTITION: [r.partition for _, _, r in rows], OFFSET: [r.offset for _, _, r in rows],
        TIMESTAMP: [r.time_ms for _, _, r in rows], SEQUENCE: [None] * len(rows),
    }  # fmt: skip
    for column in partial_columns(step):
        columns[column.name] = [_PARTIALS[column.spark]([r]) for _, _, r in rows]
    return [_encoded(columns, AggregateProcessor(query).schema)]


def _columns(
    step: AggregateStep, groups: dict[tuple[bytes | None, int], list[Record]]
) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {KEY: [key for key, _ in groups]}
    if step.window is not None:
        columns[WINDOW] = [start for _, start in groups]
    for column in partial_columns(step):
        columns[column.name] = [_PARTIALS[column.spark](g) for g in groups.values()]
    return columns


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
