"""Runs a Topology over a case's records with the engine's own parts, without a broker.

It uses a job's decoder, expressions, state task processor and encoder.  Each query reads
all its input before the next one starts; its state is one in-memory state partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.ingest.records import RecordDecoder
from holdfast.ingest.used_columns import used_columns
from holdfast.tasks.evaluate.projected import Projected
from holdfast.tasks.pack.packing import payload_of
from holdfast.testing.bytes_of import Headers, RawRecord
from holdfast.testing.emit import with_emit
from holdfast.testing.phases import Life
from holdfast.testing.state_partition import StatePartition
from holdfast.testing.topics import Piped, Topics
from holdfast.transport.reader import Chunk
from holdfast.types.columns.schemas import Schemas
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import (
    OFFSET,
    SEQUENCE,
    Emit,
    Query,
    Topology,
    statements,
)

__all__ = ["Engine"]


@dataclass(frozen=True)
class _Emitted:
    """A sink record and the place of the record that caused it."""

    record: RawRecord
    order: int


class Engine:
    """Owns only its settings; may run several cases at a time."""

    def __init__(self, emit: Emit, batch_records: int | None = None) -> None:
        """`batch_records`: how many records a query processes at a time; None: all."""
        self._emit = emit
        self._batch_records = batch_records

    def run(self, topology: Topology, topics: Topics, life: Life) -> list[str]:
        """Runs the queries one by one, each over all new records of its topics in this phase.

        Returns:
            The undecodable records that were left out, and why.
        """
        left_out: dict[str, None] = {}
        for queries in statements(topology.queries).values():
            inner = {q.sink.topic for q in queries if q.sink.internal}
            outer = [s.topic for q in queries for s in q.sources if s.topic not in inner]
            piped, causes = topics.piped(outer, life.there)
            for query in queries:
                read = []
                for side, source in enumerate(query.sources):
                    batch, bad = _decoded(query, side, piped[source.topic], topics.schemas)
                    read.append(batch)
                    left_out |= dict.fromkeys(bad)
                emitted = self._emitted(with_emit(query, self._emit), read, piped, life)
                if query.sink.internal:
                    piped[query.sink.topic] = Piped(
                        [e.record for e in emitted], [e.order for e in emitted]
                    )
                else:
                    for each in emitted:
                        cause = causes[each.order] if causes else 0
                        topics.append(query.sink.topic, each.record, cause)
        return list(left_out)

    def _emitted(
        self, query: Query, read: Sequence[pa.RecordBatch], piped: Mapping[str, Piped], life: Life
    ) -> list[_Emitted]:
        if not query.stateful:
            return sorted(_projected(query, read[0]), key=lambda each: each.order)
        emitted = self._processed(query, read, life.partition(query))
        headers = _headers(piped[source.topic] for source in query.sources)
        ordered = sorted(emitted, key=lambda each: each.order)
        return [_with_headers(each, headers.get(each.order, ())) for each in ordered]

    def _processed(
        self, query: Query, read: Sequence[pa.RecordBatch], partition: StatePartition
    ) -> list[_Emitted]:
        emitted = []
        for batch in self._batches(read):
            rows = [payload_of(each, query, side) for side, each in enumerate(batch)]
            changes = partition.process(pa.Table.from_batches(rows, partition.schema))
            order = changes.sink_order or [0] * len(changes.sink_keys)
            records = zip(
                changes.sink_keys, changes.sink_values, changes.sink_timestamps, order, strict=True
            )
            emitted += [_Emitted(RawRecord(k, v, t), o) for k, v, t, o in records]
        return emitted

    def _batches(self, read: Sequence[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """All records, or batches of the given size, in the order of their places."""
        size = self._batch_records
        if size is None:
            yield list(read)
            return
        places = sorted({place for batch in read for place in batch[SEQUENCE].to_pylist()})
        for at in range(0, len(places), size):
            first, last = places[at], places[min(at + size, len(places)) - 1]
            yield [
                batch.filter((pc.field(SEQUENCE) >= first) & (pc.field(SEQUENCE) <= last))
                for batch in read
            ]


def _projected(query: Query, read: pa.RecordBatch) -> list[_Emitted]:
    projected = Projected(query)
    rows = projected.rows(read)
    order = rows[SEQUENCE].to_pylist()
    found = projected.records(rows)
    headers = found.headers or [()] * len(found.keys)
    records = zip(found.keys, found.values, found.timestamps, headers, found.rows, strict=True)
    return [_Emitted(RawRecord(k, v, t, h), order[row]) for k, v, t, h, row in records]


def _headers(read: Iterable[Piped]) -> dict[int, Headers]:
    """The headers of the records that have any, by place."""
    return {
        order: record.headers
        for piped in read
        for record, order in zip(piped.records, piped.order, strict=True)
        if record.headers
    }


def _with_headers(emitted: _Emitted, headers: Headers) -> _Emitted:
    """Adds the headers of the record that caused the result, as Kafka Streams does."""
    return replace(emitted, record=replace(emitted.record, headers=headers))


def _decoded(
    query: Query, side: int, piped: Piped, schemas: Schemas | None
) -> tuple[pa.RecordBatch, list[str]]:
    """The decodable records in columns, with their places; and why others cannot be decoded."""
    source = query.sources[side]
    options = IngestOptions(source=source, kafka={}, columns=used_columns(query, side))
    chunk = Chunk(
        keys=[r.key for r in piped.records],
        values=[r.value for r in piped.records],
        offsets=list(range(len(piped.records))),
        timestamps=[r.timestamp for r in piped.records],
        position=len(piped.records),
        headers=[list(r.headers) for r in piped.records],
    )
    batch, bad = RecordDecoder(options, schemas).decode(chunk, 0)
    order = np.array(piped.order, np.int64)[batch[OFFSET].to_numpy()]
    reasons = [f"{source.topic}, record {each.offset}: {each.reason}" for each in bad]
    return batch.append_column(SEQUENCE, pa.array(order)), reasons
