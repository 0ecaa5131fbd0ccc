"""Payloads of a batch as executors read and pack them, for tests that call workers by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from holdfast.config.settings import Settings
from holdfast.ingest.ranges import KafkaRange, kafka_ranges
from holdfast.ingest.reading import read, read_packed
from holdfast.runtime.queries.inputs import Inputs
from holdfast.tasks.pack.packing import unpacked
from holdfast.types.ids import OffsetRange
from holdfast.types.statements.topology import Query

__all__ = ["payloads", "reader"]


def payloads(
    settings: Settings, query: Query, source: OffsetRange, state_partitions: int
) -> list[list[pa.Buffer]]:
    """The payload of each state partition, read from the fake Kafka."""
    options = Inputs(query, settings).options()
    blobs = unpacked(
        blob
        for wanted in kafka_ranges(options, source.starts(), source.ends())
        for _, blob in read_packed(options, query, state_partitions, wanted)
    )
    return [blobs.get(partition, []) for partition in range(state_partitions)]


def reader(
    settings: Settings, query: Query, partition: int, start: int, end: int
) -> Callable[[], Iterator[pa.RecordBatch]]:
    """Reads the records of a stateless query's task from the fake Kafka when it is called."""
    options = Inputs(query, settings).options()
    return partial(read, options, KafkaRange(partition, start, end))
