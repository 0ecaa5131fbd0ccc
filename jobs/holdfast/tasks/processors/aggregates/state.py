"""The aggregates of one step side by side: payload columns in, one row of state, results out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import NumericOverflow
from holdfast.state.changelog import StateKeys
from holdfast.state.table_store import NO_ELEMENTS, Elements
from holdfast.tasks.aggregates.base import Aggregate, Partial
from holdfast.tasks.aggregates.registry import bind, function_of
from holdfast.tasks.evaluate.keys import decode_keys, windowed_array
from holdfast.tasks.pack.folds import Fold, Folding, Groups, fold
from holdfast.tasks.pack.rows import RowCodec
from holdfast.tasks.processors.aggregates.elements import (
    ElementCodec,
    ElementSets,
    calls_of,
    keeps_elements,
)
from holdfast.tasks.processors.base import KEY, StoreView
from holdfast.types.columns.pieces import as_array
from holdfast.types.columns.schema import BIGINT, INTEGER
from holdfast.types.statements.differences import DIFFERENCES
from holdfast.types.statements.expressions import Expression
from holdfast.types.statements.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    AggregateCall,
    AggregateStep,
    Emit,
    WindowKind,
)
from holdfast.types.words import shortened

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
    "in_arrival_order",
    "partial_columns",
    "partials_of",
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


@dataclass(frozen=True)
class PartialColumn:
    """A column of the shuffled payload that is folded."""

    name: str
    type: pa.DataType
    folding: Folding | Fold


def by_record(step: AggregateStep) -> bool:
    """Whether the payload has one row per record (and window) instead of one per key.

    Sessions need it to find their bounds, final results to know which record was too late, and
    undoing because its order matters.
    """
    session = step.window is not None and step.window.kind is WindowKind.SESSION
    return session or bool(step.undo) or step.emit is not Emit.BATCH


def in_arrival_order(step: AggregateStep) -> bool:
    """Whether the payload has one row per record, to be folded in the order of their offsets.

    A key that lives in one topic partition (every keyed topic) gets exactly the order of its
    offsets; across topic partitions Kafka itself has no order.
    """
    return not by_record(step) and any(function_of(call).listed for call in step.aggregates)


def partial_columns(step: AggregateStep) -> list[PartialColumn]:
    """The columns that are folded, beside those by which rows are grouped."""
    columns = [
        PartialColumn(name, partial.type, partial.folding) for name, _, partial in _partials(step)
    ]
    if by_record(step):
        return columns
    counted = PartialColumn(COUNT, pa.int64(), Folding.ADD)
    latest = PartialColumn(ROWTIME, pa.int64(), Folding.MAX)
    return [counted, latest, *columns]


def partials_of(
    step: AggregateStep, arguments: Callable[[Expression], pa.Array], times: pa.Array
) -> dict[str, pa.Array]:
    """The columns of `partial_columns` for each single record.

    Args:
        arguments: makes the column of an argument, of its SQL type's Arrow type.
        times: the event time of each record, in ms.
    """
    rows = len(times)
    columns = {
        name: partial.of([arguments(a) for a in call.args], rows)
        for name, call, partial in _partials(step)
    }
    if by_record(step):
        return columns
    return {COUNT: pa.array(np.ones(rows, np.int64)), ROWTIME: times, **columns}


def _partials(step: AggregateStep) -> list[tuple[str, AggregateCall, Partial]]:
    """The name, call and partial of each partial column."""
    return [
        (f"{letter}{i}_{j}", call, partial)
        for letter, calls in (("p", step.aggregates), ("q", step.undo))
        for i, call in enumerate(calls)
        for j, partial in enumerate(bind(call).partials)
    ]


def folded(
    step: AggregateStep, payload: pa.Table | pa.RecordBatch, groups: Groups, firsts: pa.Array
) -> list[pa.Array]:
    """One payload row per group: partials folded into one, other columns from the first row."""
    foldings = {c.name: c.folding for c in partial_columns(step)}
    columns = {
        name: chunk(payload[name]) if isinstance(payload, pa.Table) else payload[name]
        for name in payload.schema.names
    }
    return [
        fold(foldings[name], column, groups) if name in foldings else column.take(firsts)
        for name, column in columns.items()
    ]


def payload_schema(step: AggregateStep) -> pa.Schema:
    """The columns of a payload: those by which rows are grouped and ordered, then the partials."""
    fields = [pa.field(KEY, pa.binary())]
    if step.window is not None and step.window.kind is not WindowKind.SESSION:
        fields.append(pa.field(WINDOW, pa.int64()))
    if by_record(step):
        fields += [pa.field(name, kind.arrow()) for name, kind in RECORD_COLUMNS.items()]
    elif in_arrival_order(step):
        fields += [pa.field(name, RECORD_COLUMNS[name].arrow()) for name in (PARTITION, OFFSET)]
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
        self._step = step
        self._calls = calls_of(step)
        self._bounded = any(call.can_overflow for call in self._calls)
        self._undo = [bind(call) for call in step.undo]
        self._names = [call.name for call in step.aggregates]
        self._types = [t for call in self._calls for t in call.state]
        self.codec, self._sets = RowCodec(self._types), None
        if keeps_elements(step):
            self.codec = codec = ElementCodec(step)
            self._sets = ElementSets(codec)

    def empty(self, count: int) -> Columns:
        """Rows of initial state."""
        return [pa.nulls(count, t) for t in self._types]

    def resolved(
        self,
        payload: pa.Table,
        of: npt.NDArray[np.int64],
        keys: Sequence[bytes],
        rows: Sequence[bytes | None],
        store: StoreView,
    ) -> tuple[pa.Table, Elements]:
        """See `ElementSets`: what to call before `merge`."""
        if self._sets is None:
            return payload, NO_ELEMENTS
        return self._sets.resolved(payload, of, as_array(keys, pa.binary()), rows, store)

    def merge(self, old: Sequence[pa.Array], payload: pa.Table) -> Columns:
        """Merges one payload row into each row of state; both are in the same order."""
        new: Columns = []
        for i, (call, part) in enumerate(zip(self._calls, self._split(old), strict=True)):
            new += call.merge(part, _columns(payload, f"p{i}", call))
        return new

    def check(self, state: Sequence[pa.Array], keys: pa.Array) -> None:
        """Raises `NumericOverflow`: a sum has no place in its type, and NULL is not wanted.

        Args:
            state: new states.
            keys: the key of each, without its window.
        """
        if not self._bounded:
            return
        parts = zip(self._step.aggregates, self._calls, self._split(state), strict=True)
        for call, bound, part in parts:
            found = bound.overflow(part) if bound.can_overflow else None
            if found is not None:
                raise _overflow(self._step, call, keys[found[0]].as_py(), found[1])

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


_KEY_SHOWN = 200  # characters


def _overflow(step: AggregateStep, call: AggregateCall, key: bytes, value: str) -> NumericOverflow:
    columns = [k.column for k in step.keys]
    parts = zip(columns, decode_keys([key], columns), strict=True)
    key_text = ", ".join(f"{column.name} = {part[0].as_py()!r}" for column, part in parts)
    named = shortened(key_text, _KEY_SHOWN)
    return NumericOverflow(
        f"Numeric field overflow: the {call.function} of {named} is {value}, which is no "
        f"{call.type}.",
        cause="the key's values are too many or too large, and as in ksqlDB that ends the query",
        action="drop it, and sum a CAST to a wider DECIMAL in another statement; with "
        f"SET '{DIFFERENCES}'='kept' the sum is NULL until it fits again",
    )


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
