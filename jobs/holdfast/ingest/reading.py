"""Reads and decodes the records of one input partition, on an executor."""

from __future__ import annotations

import gc
import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import pyarrow as pa

from holdfast.errors import DataLoss
from holdfast.ingest.dead_letters import DeadLetters, undecodable
from holdfast.ingest.offsets import WAYS_OUT
from holdfast.ingest.ranges import KafkaRange
from holdfast.ingest.records import BadRecord, RecordDecoder, wants_headers
from holdfast.tasks.pack.packing import Packer
from holdfast.transport.reader import Chunk, PartitionReader
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import Query
from holdfast.types.trace_links import TRACEPARENT, TraceLinks

__all__ = ["read", "read_packed", "reader"]

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


def read(
    options: IngestOptions, wanted: KafkaRange, links: TraceLinks | None = None
) -> Iterator[pa.RecordBatch]:
    """Record batches of a range: the wanted columns of its input, and those that ingest adds.

    Args:
        links: gathers the traces of its records.

    Raises:
        DataLoss: records are gone, and `fail.on.data.loss` is set.
        UndecodableRecord: a record cannot be decoded, and `deserialization.error` is "fail".
    """
    return _without_collections(_decoded(options.inputs[wanted.side], wanted, links))


def read_packed(
    options: IngestOptions,
    query: Query,
    state_partitions: int,
    wanted: KafkaRange,
    links: TraceLinks | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Reads and packs a range: yields state partitions and blobs (`tasks.pack.packing`).

    Args:
        links: gathers the traces of its records.

    Raises:
        DataLoss, UndecodableRecord: as `read`.
    """
    sides = range(len(query.inputs)) if query.read_once else [wanted.side]
    batches = _decoded(options.inputs[wanted.side], wanted, links)
    return _without_collections(Packer(query, state_partitions, sides)(batches))


def _without_collections(made: Iterable[_T]) -> Iterator[_T]:
    gc.freeze()  # Spark collects after every task; see `runtime.queries.batches.workers`
    gc.disable()  # thousands of messages are live objects, and none is part of a cycle
    try:
        yield from made
    finally:
        gc.enable()


def _decoded(
    options: IngestOptions, partition: KafkaRange, links: TraceLinks | None
) -> Iterator[pa.RecordBatch]:
    decoder = RecordDecoder(options)
    letters = DeadLetters(options, partition.partition)
    try:
        for chunk in _chunks(options, partition):
            if links is not None:
                links.see(chunk.last_headers(TRACEPARENT))
            batch, bad = decoder.decode(chunk, partition.partition)
            _set_aside(options, letters, partition.partition, bad)
            if batch.num_rows:
                yield batch
    finally:
        letters.close()


def _set_aside(
    options: IngestOptions, letters: DeadLetters, partition: int, bad: list[BadRecord]
) -> None:
    if bad and options.on_undecodable == "fail":
        raise undecodable(options, partition, bad[0])
    letters.write(bad)


def _chunks(options: IngestOptions, wanted: KafkaRange) -> Iterator[Chunk]:
    source = reader(
        options.kafka,
        options.transactional_id_prefix,
        options.source.topic,
        wanted.partition,
        headers=wants_headers(options),
    )
    start, end = wanted.start, wanted.end
    if not options.fail_on_data_loss:
        start, end = _what_is_left(source, wanted)
    try:
        if start < end:
            yield from source.read(start, end)
    except DataLoss as error:
        raise DataLoss(error.fact, cause=error.cause, action=WAYS_OUT) from error


def _what_is_left(source: PartitionReader, wanted: KafkaRange) -> tuple[int, int]:
    """The part of a range that still exists; logs lost offsets as an error."""
    low, high = source.bounds()
    start, end = max(wanted.start, low), min(wanted.end, high)
    if (start, end) != (wanted.start, wanted.end):
        _LOG.warning(
            "DATA LOSS in topic %s partition %d: offsets %d to %d are to be read, only %d to %d "
            "exist; continuing with these because of fail.on.data.loss=false",
            source.topic,
            wanted.partition,
            wanted.start,
            wanted.end,
            low,
            high,
        )
    return start, end


_READERS_MAX = 16

_Client = tuple[tuple[str, str], ...]
_readers: OrderedDict[tuple[_Client, str, str, int, bool], PartitionReader] = OrderedDict()


def reader(
    client: Mapping[str, str], query: str, topic: str, partition: int, *, headers: bool = False
) -> PartitionReader:
    """This process's reader of a topic partition; evicts the least recently used one.

    Each query has its own readers, because queries are at different offsets.
    """
    key = (_identity(client), query, topic, partition, headers)
    found = _readers.get(key)
    if found is None:
        found = _readers[key] = PartitionReader(
            client, topic, partition, headers=headers, exists=True
        )
    _readers.move_to_end(key)
    while len(_readers) > _READERS_MAX:
        _readers.popitem(last=False)[1].close()
    return found


def _identity(client: Mapping[str, str]) -> _Client:
    return tuple(sorted(client.items()))
