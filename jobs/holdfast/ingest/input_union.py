"""Reads several inputs of a query as one: a side per row, and separate columns per input."""

from __future__ import annotations

import pyarrow as pa

from holdfast.tasks.processors.base import SIDE
from holdfast.types.ingest import IngestOptions, side_prefix
from holdfast.types.schema import Column
from holdfast.types.topology import META_COLUMNS

__all__ = ["Widener", "side_columns"]


def side_columns(options: IngestOptions) -> list[Column]:
    """Every input's wanted columns, with names that are unique among the inputs."""
    found = []
    for each in options.inputs:
        kinds = {c.name: c.type for c in each.source.readable}
        prefix = side_prefix(each.side)
        found += [Column(prefix + name, kinds[name]) for name in each.columns]
    return found


class Widener:
    """Widens an input's record batches to the columns of all inputs."""

    def __init__(self, options: IngestOptions, side: int) -> None:
        self._side = side
        self._own = {side_prefix(side) + name: name for name in options.inputs[side].columns}
        self._fields = [(c.name, c.type.arrow()) for c in side_columns(options)]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with nulls in the columns of the other inputs."""
        rows = batch.num_rows
        columns = {
            name: batch[self._own[name]] if name in self._own else pa.nulls(rows, kind)
            for name, kind in self._fields
        }
        columns |= {name: batch[name] for name in META_COLUMNS}
        columns[SIDE] = pa.repeat(pa.scalar(self._side, pa.int8()), rows)
        return pa.RecordBatch.from_pydict(columns)
