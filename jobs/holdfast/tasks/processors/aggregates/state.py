"""The aggregates of one step side by side: payload columns in, one row of state, results out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.state.changelog import StateKeys
from holdfast.tasks.aggregates.base import Aggregate
from holdfast.tasks.aggregates.registry import bind, function_of
from holdfast.tasks.evaluate.keys import windowed_array
from holdfast.tasks.pack.folds import Fold, Folding, Groups, fold
from holdfast.tasks.pack.rows import RowCodec
from holdfast.tasks.processors.base import KEY
from holdfast.types.expressions import Expression
from holdfast.types.schema import BIGINT, INTEGER
from holdfast.types.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    AggregateCall,
    AggregateStep,
    Emit,
    WindowKind,
)

__all__ = [
    "COUNT",
    "HAS_NEW",
    "HAS_OLD",
    "RECORD_COLUMNS",
    "ROWTIME",
    "WINDOW",
    "Columns",
    "PartialColumn",
    "StateColumns",
    "by_record",
    "chunk",
    "combined",
    "folded",
    "partial_columns",
    "partial_folds",
    "payload_schema",
    "pick",
    "state_keys_of",
]

WINDOW, COUNT, ROWTIME = "__window", "__n", "__ts"
HAS_OLD, HAS_NEW = "HAS_OLD", "HAS_NEW"  # see `ChangesStep`
Columns: TypeAlias = "list[pa.Array]"

# The columns that identify a record in a payload with one row per record.
RECORD_COLUMNS = {
    PARTITION: INTEGER,
    OFFSET: BIGINT,
    TIMESTAMP: BIGINT,
    SEQUENCE: BIGINT,
}
_TIME = Expression(f"`{TIMESTAMP}`", BIGINT, columns=(TIMESTAMP,), ref=TIMESTAMP)
_COUNTS, _NEWEST = Fold(Folding.ADD, None, counts=True), Fold(Folding.MAX, _TIME)


@dataclass(frozen=True)
class PartialColumn:
    """A column of the shuffled payload: its name, Spark SQL aggregate, Arrow type and fold."""

    name: str
    spark: str
    type: pa.DataType
    fold: Fold | None = None


def by_record(step: AggregateStep) -> bool:
    """Whether the payload has one row per record (and window) instead of one per key.

    Sessions need it to find their bounds, final results to know which record was too late, and
    undoing because its order matters.
    """
    session = step.window is not None and step.window.kind is WindowKind.SESSION
    return session or bool(step.undo) or step.emit is not Emit.BATCH


def partial_columns(step: AggregateStep) -> list[PartialColumn]:
    """The columns that Spark computes for each payload row, beside those it groups by."""
    columns = _partials(step.aggregates, "p") + _partials(step.undo, "q")
    if by_record(step):
        return columns
    counted = PartialColumn(COUNT, "count(1)", pa.int64(), _COUNTS)
    latest = PartialColumn(ROWTIME, f"max({_TIME})", pa.int64(), _NEWEST)
    return [counted, latest, *columns]


def partial_folds(step: AggregateStep) -> list[Fold | None]:
    """The folds of `partial_columns`, without Arrow."""
    calls = (*step.aggregates, *step.undo)
    folds = [fold for call in calls for fold in function_of(call).folds(call)]
    return folds if by_record(step) else [_COUNTS, _NEWEST, *folds]


def _partials(calls: Sequence[AggregateCall], letter: str) -> list[PartialColumn]:
    return [
        PartialColumn(f"{letter}{i}_{j}", partial.spark, partial.type, partial.fold)
        for i, call in enumerate(calls)
        for j, partial in enumerate(bind(call).partials)
    ]


def folded(
    step: AggregateStep, payload: pa.Table | pa.RecordBatch, groups: Groups, firsts: pa.Array
) -> list[pa.Array]:
    """One payload row per group: partials folded into one, other columns from the first row."""
    folds = {c.name: c.fold.folding for c in partial_columns(step) if c.fold is not None}
    columns = {
        name: chunk(payload[name]) if isinstance(payload, pa.Table) else payload[name]
        for name in payload.schema.names
    }
    return [
        fold(folds[name], column, groups) if name in folds else column.take(firsts)
        for name, column in columns.items()
    ]


def payload_schema(step: AggregateStep) -> pa.Schema:
    """The columns of a payload: those Spark groups by, then the partials."""
    fields = [pa.field(KEY, pa.binary())]
    if step.window is not None and step.window.kind is not WindowKind.SESSION:
        fields.append(pa.field(WINDOW, pa.int64()))
    if by_record(step):
        fields += [pa.field(name, kind.arrow()) for name, kind in RECORD_COLUMNS.items()]
    if step.undo:
        fields += [pa.field(HAS_OLD, pa.bool_()), pa.field(HAS_NEW, pa.bool_())]
    return pa.schema(fields + [pa.field(c.name, c.type) for c in partial_columns(step)])


def state_keys_of(step: AggregateStep, payload: pa.Table) -> StateKeys:
    """The state key of each row, including the window if the step has windows."""
    keys = chunk(payload[KEY])
    if step.window is None:
        return StateKeys(keys)
    return StateKeys(windowed_array(keys, payload[WINDOW].to_numpy()))


class StateColumns:
    """Merges, undoes and finishes the state columns of all aggregates; holds no data itself.

    Every method takes and returns arrays with one entry per row of state, in `codec`'s order.
    """

    def __init__(self, step: AggregateStep) -> None:
        self._calls = [bind(call) for call in step.aggregates]
        self._undo = [bind(call) for call in step.undo]
        self._names = [call.name for call in step.aggregates]
        self._types = [t for call in self._calls for t in call.state]
        self.codec = RowCodec(self._types)

    def empty(self, count: int) -> Columns:
        """Rows of initial state."""
        return [pa.nulls(count, t) for t in self._types]

    def merge(self, old: Sequence[pa.Array], payload: pa.Table) -> Columns:
        """Merges one payload row into each row of state; both are in the same order."""
        new: Columns = []
        for i, (call, part) in enumerate(zip(self._calls, self._split(old), strict=True)):
            new += call.merge(part, _columns(payload, f"p{i}", call))
        return new

    def undo(self, old: Sequence[pa.Array], payload: pa.Table) -> Columns:
        """Takes back what the payload's old rows added."""
        new: Columns = []
        parts = zip(self._calls, self._undo, self._split(old), strict=True)
        for i, (call, undone, part) in enumerate(parts):
            new += call.undo(part, _columns(payload, f"q{i}", undone))
        return new

    def combine(self, first: Sequence[pa.Array], second: Sequence[pa.Array]) -> Columns:
        """Merges two states row by row; `first` is the older."""
        new: Columns = []
        for call, a, b in zip(self._calls, self._split(first), self._split(second), strict=True):
            new += call.combine(a, b)
        return new

    def finish(self, state: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """The results by the aggregates' names."""
        parts = zip(self._names, self._calls, self._split(state), strict=True)
        return {name: call.finish(part) for name, call, part in parts}

    def _split(self, state: Sequence[pa.Array]) -> list[Sequence[pa.Array]]:
        parts, at = [], 0
        for call in self._calls:
            parts.append(state[at : at + len(call.state)])
            at += len(call.state)
        return parts


def combined(
    state: StateColumns, parents: Sequence[pa.Array], counts: npt.NDArray[np.int64]
) -> Columns:
    """For each row, its parents' states merged into one.

    Args:
        parents: the parents' states of all rows, row after row.
        counts: the number of parents of each row; never ascending.
    """
    starts = np.cumsum(counts) - counts
    merged = state.empty(len(counts))
    for j in range(int(counts.max(initial=0))):
        many = int(np.count_nonzero(counts > j))
        at = pa.array(starts[:many] + j)
        head = [column.take(at) for column in parents]
        if j:
            head = state.combine([column.slice(0, many) for column in merged], head)
        tail = [column.slice(many) for column in merged]
        merged = [pa.concat_arrays(pair) for pair in zip(head, tail, strict=True)]
    return merged


def _columns(payload: pa.Table, prefix: str, call: Aggregate) -> Columns:
    return [chunk(payload[f"{prefix}_{j}"]) for j in range(len(call.partials))]


def chunk(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table as one array."""
    combined = column.combine_chunks()
    if isinstance(combined, pa.Array):
        return combined
    return combined.chunk(0) if combined.num_chunks else pa.array([], column.type)


def pick(old: Sequence[pa.Array], new: Sequence[pa.Array], where: pa.Array) -> Columns:
    """For each row, the new state if `where` is true, else the old one."""
    return [pc.if_else(where, b, a) for a, b in zip(old, new, strict=True)]
