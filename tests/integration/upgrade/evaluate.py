"""The way of a batch's records to the state partitions, without a cluster.

This is the one place of the upgrade tests that knows how this version evaluates a query before
the shuffle.  A version with another way changes this file, and no other here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from holdfast.ingest.records import RecordDecoder
from holdfast.ingest.used_columns import used_columns
from holdfast.tasks.evaluate.projected import Projected, ProjectedRecords
from holdfast.tasks.pack.packing import Packer, from_arrow, unpacked
from holdfast.tasks.processors.kinds import processor_of
from holdfast.transport.reader import Chunk
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import Query
from tests.integration.upgrade.written import STATE_PARTITIONS, Record

__all__ = ["payloads", "projected"]

# By side and topic partition, the records of a batch.
Batch = Sequence[Mapping[int, Sequence[Record]]]


def payloads(query: Query, batch: Batch) -> list[pa.Table]:
    """The payload of each state partition, as its state task gets it."""
    blobs: list[bytes] = []
    for side, partitions in enumerate(batch[:1] if query.read_once else batch):
        sides = range(len(query.inputs)) if query.read_once else [side]
        for partition, records in partitions.items():
            read = _decoded(query, side, partition, records)
            packer = Packer(query, STATE_PARTITIONS, sides)
            blobs += [blob for _, blob in packer([read] if read.num_rows else [])]
    found = unpacked(blobs)
    schema = processor_of(query).schema
    return [from_arrow(found.get(p, []), schema) for p in range(STATE_PARTITIONS)]


def projected(query: Query, batch: Batch) -> list[ProjectedRecords]:
    """The sink records of a query without state."""
    made = Projected(query)
    return [
        made.records(made.rows(_decoded(query, 0, partition, records)))
        for partition, records in batch[0].items()
    ]


def _decoded(query: Query, side: int, partition: int, records: Sequence[Record]) -> pa.RecordBatch:
    columns = used_columns(query, side)
    options = IngestOptions(query.sources[side], {}, columns, query=query, side=side)
    chunk = Chunk(
        keys=[r.key for r in records],
        values=[r.value for r in records],
        offsets=[r.offset for r in records],
        timestamps=[r.timestamp_ms for r in records],
        position=records[-1].offset + 1 if records else 0,
        headers=[list(r.headers) for r in records],
    )
    return RecordDecoder(options).decode(chunk, partition)[0]
