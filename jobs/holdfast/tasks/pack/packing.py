"""The packed shuffle: a batch goes to its state partitions as blobs of columns, not as rows.

Where a query's keys and arguments are plain columns, nothing before the shuffle needs Spark SQL.
The task that reads Kafka then makes the payload itself (partials, or rows) and cuts it by state
partition; Spark moves a few large values instead of every row, and its JVMs touch none of them.
Any other query takes the way through Spark SQL (`runtime.queries.frames`, `row_frames`); both put a
key into the same state partition.

A blob is an Arrow IPC record batch without schema behind the number of its state partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.pack.folds import first_rows, grouped, of_record
from holdfast.tasks.pack.key_columns import KEY_TYPES, state_keys
from holdfast.tasks.processors.aggregates.state import (
    HAS_NEW,
    HAS_OLD,
    RECORD_COLUMNS,
    WINDOW,
    by_record,
    folded,
    partial_columns,
    partial_folds,
    payload_schema,
)
from holdfast.tasks.processors.base import KEY, SIDE, row_schema
from holdfast.transport.partitioner import state_partitions
from holdfast.types.ingest import Packing
from holdfast.types.schema import SqlType
from holdfast.types.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    TOMBSTONE,
    AggregateStep,
    Input,
    JoinStep,
    NamedExpression,
    Query,
    Source,
    Window,
    WindowKind,
)

__all__ = ["Packer", "added", "addressed", "from_arrow", "packs", "unpacked"]

_PLACE_BYTES = 8  # little endian; as many as Arrow aligns what follows to
_ROWS, _BYTES = 100_000, 32 << 20  # what a packer holds before it gives away a piece


def packs(query: Query) -> bool:
    """Whether its batches are packed: every key, argument and carried column is a plain column."""
    step = query.step
    if isinstance(step, AggregateStep):
        return query.filter is None and _plain_aggregate(step, query.source)
    broadcast = isinstance(step, JoinStep) and step.broadcast
    each_once = len(set(query.sources)) == len(query.inputs)  # a self-join is read once
    return bool(query.inputs) and not broadcast and each_once and all(map(_plain, query.inputs))


def _plain_aggregate(step: AggregateStep, source: Source) -> bool:
    kinds = _kinds(source)
    folds = partial_folds(step)
    refs = [f.of.ref for f in folds if f is not None and f.of is not None]
    return None not in folds and _plain_key(step.keys, kinds) and all(r in kinds for r in refs)


def added(query: Query) -> frozenset[str]:
    """Which of the columns that ingest adds to a source's own a query's `Packer` looks at."""
    step, every = query.step, frozenset({PARTITION, OFFSET, TIMESTAMP, TOMBSTONE})
    if not isinstance(step, AggregateStep) or by_record(step):
        return every
    folded_ = [fold.of for fold in partial_folds(step) if fold is not None]
    named = {e.ref for e in (*folded_, *(k.expression for k in step.keys)) if e is not None}
    return every & (named | {TOMBSTONE} | ({TIMESTAMP} if step.window is not None else set()))


def _plain(each: Input) -> bool:
    kinds = _kinds(each.source)
    columns = (kinds.get(_ref(c)) == c.column.type for c in each.columns)
    if len(each.keys) > 1 and each.source.kind == "TABLE":
        return False  # of a table's key parts may miss, see `state_key_sql`
    return each.filter is None and _plain_key(each.keys, kinds) and all(columns)


def _plain_key(keys: Sequence[NamedExpression], kinds: Mapping[str, SqlType]) -> bool:
    """Columns that `state_keys` takes."""
    return bool(keys) and all(
        k.column.type.base in KEY_TYPES and kinds.get(_ref(k)) == k.column.type for k in keys
    )


def _kinds(source: Source) -> dict[str, SqlType]:
    return {c.name: c.type for c in source.readable} | RECORD_COLUMNS


def _ref(each: NamedExpression) -> str:
    """The column that an expression is; empty when it is more than a column."""
    return each.ref or ""


class Packer:
    """Makes the record batches of a topic partition a query's payload, cut by state partition."""

    def __init__(self, packing: Packing, side: int) -> None:
        self._query = packing.query
        self._state_partitions = packing.state_partitions
        self._side = side

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        """State partitions, each with a blob for it; again and again, a piece at a time."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(b.num_rows for b in held) >= _ROWS or sum(b.nbytes for b in held) >= _BYTES:
                yield from self._packed(held)
                held = []
        if held:
            yield from self._packed(held)

    def _packed(self, held: list[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        rows = pa.concat_batches(held)
        step = self._query.step
        if isinstance(step, AggregateStep):
            made = _aggregated(rows, step)
        else:
            made = _carried(rows, self._query.inputs, self._side)
        return _cut(made, self._state_partitions)


def _cut(made: pa.RecordBatch, state_partitions_: int) -> Iterator[tuple[int, bytes]]:
    """State partitions in ascending order and the rows of each, which keep theirs."""
    places = state_partitions(made[KEY], state_partitions_)
    order = np.argsort(places.astype(np.uint16), kind="stable")
    ordered = made.take(pa.array(order))
    found, starts = np.unique(places[order], return_index=True)
    bounds = [*starts.tolist(), len(order)]
    for place, (start, end) in zip(found.tolist(), pairwise(bounds), strict=True):
        rows = ordered.slice(start, end - start).serialize()
        yield place, addressed(place, rows)


def addressed(place: int, rows: pa.Buffer | bytes) -> bytes:
    """A blob: a record batch for a state partition."""
    return b"".join((place.to_bytes(_PLACE_BYTES, "little"), rows))


def _carried(rows: pa.RecordBatch, inputs: Sequence[Input], side: int) -> pa.RecordBatch:
    """The rows of one side in the columns of all."""
    ours, count = inputs[side], rows.num_rows
    columns = {name: rows[name] for name in (PARTITION, OFFSET, TIMESTAMP, TOMBSTONE)}
    columns[KEY] = _state_keys(rows, ours.keys)
    columns[SIDE] = pa.repeat(pa.scalar(side, pa.int8()), count)
    columns |= {c.column.name: rows[_ref(c)] for c in ours.columns}
    schema = row_schema(inputs)
    arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _aggregated(rows: pa.RecordBatch, step: AggregateStep) -> pa.RecordBatch:
    """A row per key (and window), or per record; a record without a value does not count."""
    if rows[TOMBSTONE].true_count:
        rows = rows.filter(pc.invert(rows[TOMBSTONE]))
    columns: dict[str, pa.Array] = {KEY: _state_keys(rows, step.keys)}
    if step.window is not None and step.window.kind is not WindowKind.SESSION:
        at, starts = windows_of(rows[TIMESTAMP].to_numpy(), step.window)
        if at is not None:
            rows, columns = rows.take(at), {KEY: columns[KEY].take(at)}
        columns[WINDOW] = pa.array(starts)
    if by_record(step):
        columns |= {name: rows[name] for name in RECORD_COLUMNS if name in rows.schema.names}
        columns[SEQUENCE] = pa.nulls(rows.num_rows, RECORD_COLUMNS[SEQUENCE].arrow())
        columns |= {name: rows[name] for name in (HAS_OLD, HAS_NEW) if step.undo}
        return _with_partials(rows, step, columns)
    by = [columns[name] for name in (KEY, WINDOW) if name in columns]
    groups = grouped(*by)
    every = _with_partials(rows, step, columns)
    if groups.single:
        return every
    firsts = pa.array(first_rows(groups))
    return pa.RecordBatch.from_arrays(folded(step, every, groups, firsts), schema=every.schema)


def _with_partials(
    rows: pa.RecordBatch, step: AggregateStep, columns: dict[str, pa.Array]
) -> pa.RecordBatch:
    for column in partial_columns(step):
        assert column.fold is not None
        of = column.fold.of
        argument = None if of is None else rows[of.ref or ""]
        columns[column.name] = of_record(column.fold, argument, column.type, rows.num_rows)
    schema = payload_schema(step)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def windows_of(
    times: npt.NDArray[np.int64], window: Window
) -> tuple[pa.Array | None, npt.NDArray[np.int64]]:
    """(row numbers, starts in ms) of all windows of records; None for "each row once".

    Kafka Streams' TimeWindows.windowsFor, as `runtime.queries.frames` says it in SQL.
    """
    size, advance = window.size_ms, window.advance_ms
    if advance == size:
        return None, times - times % size
    first = np.maximum(0, times - size + advance) // advance * advance
    counts = np.maximum(0, (times - first) // advance + 1)
    at = np.repeat(np.arange(len(times)), counts)
    nth = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    return pa.array(at), first[at] + nth * advance


def _state_keys(rows: pa.RecordBatch, keys: Sequence[NamedExpression]) -> pa.Array:
    return state_keys([rows[_ref(k)] for k in keys], [k.column.type for k in keys])


def unpacked(blobs: Iterable[bytes]) -> dict[int, list[pa.Buffer]]:
    """A task's blobs by state partition: Arrow IPC record batches without schema."""
    found: dict[int, list[pa.Buffer]] = {}
    for blob in blobs:
        place = int.from_bytes(blob[:_PLACE_BYTES], "little")
        found.setdefault(place, []).append(pa.py_buffer(blob).slice(_PLACE_BYTES))
    return found


def from_arrow(parts: Sequence[bytes | pa.Buffer], schema: pa.Schema) -> pa.Table:
    """Arrow IPC record batches without schema as one table."""
    batches = [pa.ipc.read_record_batch(pa.py_buffer(p), schema) for p in parts]
    return pa.Table.from_batches(batches, schema)
