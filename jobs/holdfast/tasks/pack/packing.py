"""The packed shuffle: a batch goes to its state partitions as blobs of columns, not as rows.

The task that reads Kafka makes the payload (partials, or rows) and cuts it by state partition;
Spark moves a few large values instead of every row, and its JVMs touch none of them.  A blob is an
Arrow IPC record batch without schema behind the number of its state partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.tasks.evaluate.source_rows import Values, input_rows, passing, values_of
from holdfast.tasks.pack.ends import without_middles
from holdfast.tasks.pack.folds import first_rows, grouped
from holdfast.tasks.pack.key_columns import state_keys
from holdfast.tasks.processors.aggregates.state import (
    HAS_NEW,
    HAS_OLD,
    RECORD_COLUMNS,
    WINDOW,
    by_record,
    folded,
    in_arrival_order,
    partials_of,
    payload_schema,
)
from holdfast.tasks.processors.base import KEY, SIDE, row_schema
from holdfast.transport.partitioner import state_partitions
from holdfast.types.statements.expressions import NamedExpression
from holdfast.types.statements.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    TOMBSTONE,
    AggregateStep,
    Query,
    Window,
    WindowKind,
)

__all__ = [
    "Packer",
    "added",
    "addressed",
    "cut",
    "from_arrow",
    "payload_of",
    "unpacked",
    "windows_of",
]

_PLACE_BYTES = 8  # little endian; as many as Arrow aligns what follows to
_ROWS, _BYTES = 100_000, 32 << 20  # what a packer holds before it gives away a piece


def added(query: Query, side: int) -> frozenset[str]:
    """Which of the columns that ingest adds to a source's own a query's payload needs."""
    step, every = query.step, frozenset({PARTITION, OFFSET, TIMESTAMP, TOMBSTONE})
    if not isinstance(step, AggregateStep) or by_record(step) or in_arrival_order(step):
        return every
    named = {name for each in query.over_records(side) for name in each.columns}
    return every & (named | {TOMBSTONE, TIMESTAMP})


class Packer:
    """Makes the record batches of a topic partition a query's payload, cut by state partition.

    Args:
        sides: the inputs that read the records; two of a self-join.
    """

    def __init__(self, query: Query, state_partitions: int, sides: Sequence[int]) -> None:
        self._query = query
        self._state_partitions = state_partitions
        self._sides = tuple(sides)

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
        for side in self._sides:
            made = payload_of(rows, self._query, side)
            for place, part in cut(made, self._query, self._state_partitions):
                yield place, addressed(place, part.serialize())


def cut(
    made: pa.RecordBatch, query: Query, state_partitions_: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """State partitions in ascending order and the payload rows of each, which keep theirs.

    A broadcast join has the rows of its table everywhere, and the records of its stream in the
    state partition of their topic partition: no key is hot then, and they keep their order.
    """
    if query.is_broadcast:
        sides = made[SIDE].to_numpy()
        table = made.filter(pa.array(sides == 1))
        stream = made.filter(pa.array(sides == 0))
        if table.num_rows:
            yield from ((place, table) for place in range(state_partitions_))
        places = stream[PARTITION].to_numpy() % state_partitions_
        yield from _by_place(stream, places)
        return
    yield from _by_place(made, state_partitions(made[KEY], state_partitions_))


def _by_place(
    made: pa.RecordBatch, places: npt.NDArray[np.integer[Any]]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    order = np.argsort(places.astype(np.uint16), kind="stable")
    ordered = made.take(pa.array(order))
    found, starts = np.unique(places[order], return_index=True)
    bounds = [*starts.tolist(), len(order)]
    for place, (start, end) in zip(found.tolist(), pairwise(bounds), strict=True):
        yield place, ordered.slice(start, end - start)


def addressed(place: int, rows: pa.Buffer | bytes) -> bytes:
    """A blob: a record batch for a state partition."""
    return b"".join((place.to_bytes(_PLACE_BYTES, "little"), rows))


def payload_of(rows: pa.RecordBatch, query: Query, side: int = 0) -> pa.RecordBatch:
    """The payload of a side's records: a row per record, or partials by key (and window).

    Args:
        rows: the columns that the query reads, and those that ingest adds (`added`); perhaps
            `SEQUENCE`.
    """
    if isinstance(query.step, AggregateStep):
        return _aggregated(passing(rows, query.filter), query.step)
    return _carried(rows, query, side)


def _carried(rows: pa.RecordBatch, query: Query, side: int) -> pa.RecordBatch:
    """The rows of one side in the columns of all."""
    ours = query.inputs[side]
    rows = input_rows(rows, ours)
    count = rows.num_rows
    values = values_of(rows, [e.expression for e in (*ours.keys, *ours.columns)])
    columns = {name: rows[name] for name in (PARTITION, OFFSET, TIMESTAMP, TOMBSTONE)}
    columns[KEY] = _state_keys(values, ours.keys, parts_may_miss=ours.source.kind == "TABLE")
    columns[SIDE] = pa.repeat(pa.scalar(side, pa.int8()), count)
    columns |= {SEQUENCE: rows[SEQUENCE]} if SEQUENCE in rows.schema.names else {}
    columns |= {c.column.name: values[c.expression] for c in ours.columns}
    schema = row_schema(query.inputs)
    arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _aggregated(rows: pa.RecordBatch, step: AggregateStep) -> pa.RecordBatch:
    """A row per key (and window), or per record; a record without a value does not count."""
    calls = (*step.aggregates, *step.undo)
    wanted = [*(k.expression for k in step.keys), *(a for call in calls for a in call.args)]
    values = values_of(rows, wanted)
    columns = {KEY: _state_keys(values, step.keys)}
    columns |= partials_of(step, values.__getitem__, rows[TIMESTAMP])
    columns |= {name: rows[name] for name in RECORD_COLUMNS if name in rows.schema.names}
    columns |= {name: rows[name] for name in (HAS_OLD, HAS_NEW) if step.undo}
    if SEQUENCE not in columns:
        columns[SEQUENCE] = pa.nulls(rows.num_rows, RECORD_COLUMNS[SEQUENCE].arrow())
    schema = payload_schema(step)
    if step.window is not None and step.window.kind is not WindowKind.SESSION:
        at, starts = windows_of(rows[TIMESTAMP].to_numpy(), step.window)
        if at is not None:
            columns = {n: c.take(at) for n, c in columns.items() if n in schema.names}
        columns[WINDOW] = pa.array(starts)
    every = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
    if by_record(step):
        return every
    return without_middles(every, step) if in_arrival_order(step) else _folded(every, step)


def _folded(every: pa.RecordBatch, step: AggregateStep) -> pa.RecordBatch:
    groups = grouped(*(every[name] for name in (KEY, WINDOW) if name in every.schema.names))
    if groups.single:
        return every
    firsts = pa.array(first_rows(groups))
    return pa.RecordBatch.from_arrays(folded(step, every, groups, firsts), schema=every.schema)


def windows_of(
    times: npt.NDArray[np.int64], window: Window
) -> tuple[pa.Array | None, npt.NDArray[np.int64]]:
    """(row numbers, starts in ms) of all windows of records; None for "each row once".

    Kafka Streams' TimeWindows.windowsFor.
    """
    size, advance = window.size_ms, window.advance_ms
    if advance == size:
        return None, times - times % size
    first = np.maximum(0, times - size + advance) // advance * advance
    counts = np.maximum(0, (times - first) // advance + 1)
    at = np.repeat(np.arange(len(times)), counts)
    nth = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    return pa.array(at), first[at] + nth * advance


def _state_keys(
    values: Values, keys: Sequence[NamedExpression], *, parts_may_miss: bool = False
) -> pa.Array:
    columns = [values[k.expression] for k in keys]
    kinds = [k.column.type for k in keys]
    return state_keys(columns, kinds, parts_may_miss=parts_may_miss)


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
