"""The way of a batch's records to the state partitions, without a cluster.

This is the one place of the upgrade tests that knows how this version evaluates a query before
the shuffle.  A version with another way changes this file, and no other here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from holdfast.ingest.records import RecordDecoder
from holdfast.runtime.jvm.inline_session import SmallSession
from holdfast.runtime.queries.frames import aggregate_frame, project_frame, row_frame, used_columns
from holdfast.tasks.evaluate.projected import Projected, ProjectedRecords
from holdfast.tasks.pack.packing import Packer, from_arrow, packs, unpacked
from holdfast.tasks.processors.base import KEY, SIDE
from holdfast.tasks.processors.kinds import processor_of
from holdfast.transport.partitioner import state_partition
from holdfast.transport.reader import Chunk
from holdfast.types.ingest import IngestOptions, Packing
from holdfast.types.topology import PARTITION, JoinStep, Query
from tests.integration.upgrade.written import STATE_PARTITIONS, Record
from tests.simulation.jobs.statements import HASH_OF_NULL

__all__ = ["Evaluation"]

# By side and topic partition, the records of a batch.
Batch = Sequence[Mapping[int, Sequence[Record]]]


class Evaluation:
    """Evaluates queries; owns a connection to Spark, which starts with the first that needs it."""

    def __init__(self) -> None:
        self._session = SmallSession()

    def close(self) -> None:
        """Stops Spark if it was started here."""
        self._session.close()

    def payloads(self, query: Query, batch: Batch) -> list[pa.Table]:
        """The payload of each state partition, as its state task gets it."""
        return _packed(query, batch) if packs(query) else self._through_sql(query, batch)

    def projected(self, query: Query, batch: Batch) -> list[ProjectedRecords]:
        """The sink records of a query without state."""
        projected = Projected(query)
        frame = project_frame(self._session.frame(_table(query, 0, batch[0])), query)
        rows = self._session.collect(frame).select(projected.schema.names).cast(projected.schema)
        return [projected.records(each) for each in rows.combine_chunks().to_batches()]

    def _through_sql(self, query: Query, batch: Batch) -> list[pa.Table]:
        frames = [self._session.frame(_table(query, side, of)) for side, of in enumerate(batch)]
        made = row_frame(frames, query, 1) if query.inputs else aggregate_frame(frames[0], query, 1)
        schema = processor_of(query).schema
        rows = self._session.collect(made).select(schema.names).cast(schema)
        placing = [KEY, SIDE, PARTITION] if query.inputs else [KEY]
        homes = [_homes(query, row) for row in rows.select(placing).to_pylist()]
        return [
            rows.take(pa.array([i for i, found in enumerate(homes) if p in found], pa.int64()))
            for p in range(STATE_PARTITIONS)
        ]


def _packed(query: Query, batch: Batch) -> list[pa.Table]:
    packing = Packing(query, STATE_PARTITIONS)
    blobs: list[bytes] = []
    for side, partitions in enumerate(batch):
        for partition, records in partitions.items():
            read = _decoded(query, side, partition, records, packing)
            blobs += [blob for _, blob in Packer(packing, side)([read] if read.num_rows else [])]
    found = unpacked(blobs)
    schema = processor_of(query).schema
    return [from_arrow(found.get(p, []), schema) for p in range(STATE_PARTITIONS)]


def _table(query: Query, side: int, partitions: Mapping[int, Sequence[Record]]) -> pa.Table:
    return pa.Table.from_batches(
        [_decoded(query, side, p, records) for p, records in partitions.items()]
    )


def _decoded(
    query: Query, side: int, partition: int, records: Sequence[Record],
    packing: Packing | None = None,
) -> pa.RecordBatch:  # fmt: skip
    columns = used_columns(query, side)
    options = IngestOptions(query.sources[side], {}, columns, side=side, packing=packing)
    chunk = Chunk(
        keys=[r.key for r in records],
        values=[r.value for r in records],
        offsets=[r.offset for r in records],
        timestamps=[r.timestamp_ms for r in records],
        position=records[-1].offset + 1 if records else 0,
        headers=[list(r.headers) for r in records],
    )
    return RecordDecoder(options).decode(chunk, partition)[0]


def _homes(query: Query, row: Mapping[str, Any]) -> Collection[int]:
    if isinstance(query.step, JoinStep) and query.step.broadcast:
        everywhere = range(STATE_PARTITIONS)
        return everywhere if row[SIDE] == 1 else (row[PARTITION] % STATE_PARTITIONS,)
    if row[KEY] is None:
        return (HASH_OF_NULL % STATE_PARTITIONS,)
    return (state_partition(row[KEY], STATE_PARTITIONS),)
