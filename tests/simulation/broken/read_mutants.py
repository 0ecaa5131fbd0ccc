"""Broken ways from Kafka to a payload: what the task that reads a topic partition may do wrong.

| mutant            | what is broken                                                              |
|-------------------|-----------------------------------------------------------------------------|
| null-passes       | a record whose WHERE is NULL passes it                                      |
| filter-after-fold | a group is kept as a whole if one of its records passes WHERE               |
| tombstone-counted | a record without a value counts                                             |
| as-it-came        | an ordered aggregate takes records in the order in which blobs have arrived |
| time-stands-still | a join does not see records without key or value, which move time on        |
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast.tasks.evaluate import source_rows
from holdfast.tasks.pack import packing
from holdfast.tasks.processors.aggregates.aggregate import AggregateProcessor
from holdfast.tasks.processors.base import KEY
from holdfast.types.statements.expressions import Expression
from holdfast.types.statements.topology import TOMBSTONE, Query
from tests.simulation.jobs.statements import PAIRS

__all__ = ["MOVED", "READ", "ReadMutant"]

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class ReadMutant:
    """A mutant, and the statements whose histories find it.

    Attributes:
        seeds: each of them finds it; None: they are not known.
    """

    mutate: Callable[[Patch], None]
    statements: tuple[str, ...]
    seeds: tuple[int, ...] | None = None


def _null_passes(patch: Patch) -> None:
    def passes(rows: pa.RecordBatch, condition: Expression) -> pa.Array:
        return pc.fill_null(source_rows.values_of(rows, [condition])[condition], True)

    patch.setattr(source_rows, "_passes", passes)


def _filter_after_fold(patch: Patch) -> None:
    real = packing.payload_of

    def folded_first(rows: pa.RecordBatch, query: Query, side: int = 0) -> pa.RecordBatch:
        passed = real(rows, query, side)
        every = real(rows, replace(query, filter=None), side)
        return every.filter(pc.is_in(every[KEY], passed[KEY]))

    patch.setattr(packing, "payload_of", folded_first)


def _tombstone_counted(patch: Patch) -> None:
    patch.setattr(packing, "passing", lambda rows, condition: rows)


def _as_it_came(patch: Patch) -> None:
    real = AggregateProcessor._by_key

    def unsorted(self: AggregateProcessor, payload: pa.Table) -> Any:
        broken = copy(self)  # processors are shared by histories
        broken._in_arrival_order = False
        return real(broken, payload)

    patch.setattr(AggregateProcessor, "_by_key", unsorted)


def _time_stands_still(patch: Patch) -> None:
    real = packing.payload_of

    def without(rows: pa.RecordBatch, query: Query, side: int = 0) -> pa.RecordBatch:
        made = real(rows, query, side)
        return made.filter(pc.and_(pc.invert(made[TOMBSTONE]), made[KEY].is_valid()))

    patch.setattr(packing, "payload_of", without)


MOVED = (75, 315)
"""Histories of a join where a record without value or key moves time on."""
READ = {
    "null-passes": ReadMutant(_null_passes, ("filter", "computed", "columns")),
    "filter-after-fold": ReadMutant(_filter_after_fold, ("computed",)),
    "tombstone-counted": ReadMutant(_tombstone_counted, ("totals", "listed")),
    "as-it-came": ReadMutant(_as_it_came, ("listed",)),
    "time-stands-still": ReadMutant(_time_stands_still, (PAIRS,), MOVED),
}
