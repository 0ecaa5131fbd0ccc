"""The sink records of a statement without state, from its projected rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.tasks.evaluate.source_rows import (
    exploded,
    passing,
    table_rows,
    values_of,
    with_primary_key,
)
from holdfast.types.statements.topology import (
    HEADERS,
    HEADERS_TYPE,
    SEQUENCE,
    TIMESTAMP,
    TOMBSTONE,
    WINDOW_END,
    WINDOW_START,
    ProjectStep,
    Query,
)

__all__ = ["Headers", "Projected", "ProjectedRecords", "stream_schema"]

Headers = tuple[tuple[str, bytes | None], ...]


def stream_schema(step: ProjectStep, *, windowed: bool = False) -> pa.Schema:
    """The payload: key columns k0…, value columns v0…, event time, tombstone flag, headers.

    `windowed` adds the bounds of the key's window, for a sink with windowed keys.
    """
    fields = [pa.field(f"k{i}", k.column.type.arrow()) for i, k in enumerate(step.keys)]
    fields += [pa.field(f"v{i}", v.column.type.arrow()) for i, v in enumerate(step.outputs)]
    fields += [pa.field(TIMESTAMP, pa.int64()), pa.field(TOMBSTONE, pa.bool_())]
    fields.append(pa.field(HEADERS, HEADERS_TYPE.arrow()))
    if windowed:
        fields += [pa.field(name, pa.int64()) for name in (WINDOW_START, WINDOW_END)]
    return pa.schema(fields)


@dataclass(frozen=True)
class ProjectedRecords:
    """Records for the sink; all sequences run in parallel, `rows` are places in the batch.

    `headers` are copied from the source records, as in Kafka Streams; None: no record has any.
    """

    keys: list[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]  # ms
    rows: Sequence[int]
    headers: list[Headers] | None = None


class Projected:
    """Knows one query's projected rows."""

    def __init__(self, query: Query) -> None:
        """Raises `TypeError` for a query with state."""
        if not isinstance(query.step, ProjectStep):
            raise TypeError(f"{query.id} is not stateless")
        self._query, self._step = query, query.step
        self._windowed = query.sink.window is not None
        self._sink = SinkRecords(query.sink)
        self._width = len(query.step.keys)
        self._count = len(query.step.outputs)
        self.schema = stream_schema(query.step, windowed=self._windowed)

    def rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The projected rows of decoded records, in the columns of `schema`.

        A column `SEQUENCE` of the records follows behind them.
        """
        rows = exploded(self._kept(rows), self._step.explode)
        made = (*self._step.keys, *self._step.outputs)
        values = values_of(rows, [each.expression for each in made])
        columns = [values[each.expression] for each in made]
        names = self.schema.names[len(made) :]
        nothing = pa.nulls(rows.num_rows, HEADERS_TYPE.arrow())
        columns += [rows[n] if n in rows.schema.names else nothing for n in names]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if SEQUENCE in rows.schema.names:
            batch = batch.append_column(SEQUENCE, rows[SEQUENCE])
        return batch

    def _kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        query = self._query
        if query.source.kind == "TABLE":
            return table_rows(with_primary_key(rows, query.source), query.filter)
        return rows if query.filter is None else passing(rows, query.filter)

    def records(self, batch: pa.RecordBatch) -> ProjectedRecords:
        """A batch's records; a row without event time gives no record."""
        parts = [batch.column(i) for i in range(self._width)]
        arrays = [batch.column(self._width + i) for i in range(self._count)]
        dead = batch[TOMBSTONE].to_pylist()
        times = self._sink.times(parts, arrays, dead, batch[TIMESTAMP].to_pylist())
        keys = self._keys(batch, parts)
        values = self._sink.values(arrays)
        headers = _headers(batch[HEADERS])
        if not any(dead) and min(times, default=0) >= 0:
            return ProjectedRecords(keys, values, times, range(len(keys)), headers)
        values, rows = list(values), [i for i, time in enumerate(times) if time >= 0]
        return ProjectedRecords(
            [keys[i] for i in rows],
            [None if dead[i] else values[i] for i in rows],
            [times[i] for i in rows],
            rows,
            None if headers is None else [headers[i] for i in rows],
        )

    def _keys(self, batch: pa.RecordBatch, parts: Sequence[pa.Array]) -> list[bytes | None]:
        nothing: list[bytes | None] = [None] * batch.num_rows
        keys = self._sink.keys(parts) if parts else nothing
        if not self._windowed:
            return keys
        bounds = batch[WINDOW_START].to_pylist(), batch[WINDOW_END].to_pylist()
        return self._sink.windowed(keys, *bounds)


def _headers(column: pa.Array) -> list[Headers] | None:
    """One tuple of headers per row; None if no row has any."""
    if not len(column.flatten()):
        return None
    return [tuple((h["KEY"], h["VALUE"]) for h in row or ()) for row in column.to_pylist()]
