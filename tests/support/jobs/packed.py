"""Payloads of a query as ingest packs them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from holdfast.tasks.pack.packing import Packer, from_arrow, unpacked
from holdfast.tasks.processors.kinds import processor_of
from holdfast.types.statements.topology import Query

__all__ = ["packed_parts", "packed_table", "packed_tables"]


def packed_parts(
    query: Query, batches: Iterable[pa.RecordBatch], state_partitions: int, side: int = 0
) -> list[list[bytes]]:
    """The payload of each state partition; every batch is packed alone, as by a task of its own.

    The records are those of a side, or of both sides of a self-join.
    """
    packer = Packer(query, state_partitions, range(2) if query.read_once else [side])
    blobs = unpacked(blob for batch in batches for _, blob in packer([batch]))
    return [[bytes(b) for b in blobs.get(p, [])] for p in range(state_partitions)]


def packed_tables(
    query: Query, batches: Iterable[pa.RecordBatch], state_partitions: int, side: int = 0
) -> list[pa.Table]:
    """The same as tables."""
    schema = processor_of(query).schema
    parts = packed_parts(query, batches, state_partitions, side)
    return [from_arrow(each, schema) for each in parts]


def packed_table(query: Query, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The payload of the only state partition."""
    (table,) = packed_tables(query, batches, 1)
    return table
