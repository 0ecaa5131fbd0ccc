"""Payloads of a query as ingest packs them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from holdfast.tasks.pack.packing import Packer, from_arrow, unpacked
from holdfast.tasks.processors.kinds import processor_of
from holdfast.types.topology import Query

__all__ = ["packed_parts", "packed_table"]


def packed_parts(
    query: Query, batches: Iterable[pa.RecordBatch], state_partitions: int
) -> list[list[bytes]]:
    """The payload of each state partition; every batch is packed alone, as by a task of its own."""
    packer = Packer(query, state_partitions, [0])
    blobs = unpacked(blob for batch in batches for _, blob in packer([batch]))
    return [[bytes(b) for b in blobs.get(p, [])] for p in range(state_partitions)]


def packed_table(query: Query, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The payload of the only state partition."""
    (parts,) = packed_parts(query, batches, 1)
    return from_arrow(parts, processor_of(query).schema)
