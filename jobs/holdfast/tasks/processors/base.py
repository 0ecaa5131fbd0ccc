"""The contract of a processor: takes one state partition's share of a batch, returns its changes.

A processor is pure: it reads old rows through `StoreView` and returns `Changes`; `StateTask`
reads and writes, in the commit order.  It holds no data between calls.

A payload has one row per input record (or per key, where Spark aggregates first) with

    __key        BINARY   the state key (`tasks.evaluate.keys`), null: no key
    __side       TINYINT  which input of the step, 0 the left
    __partition  INT      topic partition
    __offset     BIGINT   record offset
    __timestamp  BIGINT   event time in ms since the epoch
    __tombstone  BOOLEAN  the record's value was null, or its table's filter does not pass it
    __seq        BIGINT   see `types.statements.topology.SEQUENCE`

and the columns of all inputs by name; a row has nulls in the columns of the other inputs.  The
records of a stream that fail its filter are not in the payload.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.state.store import Found
from holdfast.state.table_store import Elements
from holdfast.types.columns.byte_columns import Parts
from holdfast.types.statements.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    TOMBSTONE,
    Input,
)
from holdfast.types.times import NO_TIME

__all__ = [
    "KEY",
    "NO_TIME",
    "SIDE",
    "Changes",
    "Processor",
    "StoreView",
    "TimedProcessor",
    "Watermark",
    "arrival_order",
    "row_schema",
]

KEY, SIDE = "__key", "__side"


class StoreView(Protocol):
    """The rows of one state partition, as they were before the batch."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The row of each key, None where there is none."""

    def get_elements(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The element row (`state.elements`) of each element key, None where there is none."""

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows with `start <= key < end`, in key order."""

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        """The result of `scan` for each range (start, end); fastest if ranges are in key order."""

    def scan_apart(self, starts: Parts, ends: Parts) -> Found:
        """The range, key and row of each row found; ranges are in key order and do not overlap.

        For many ranges of which most are empty.
        """

    def expired(self, before_start_ms: int, limit: int) -> list[bytes]:
        """Windowed keys (last eight bytes: the start) that start before that time, oldest first."""

    def in_time(self, start_ms: int, end_ms: int) -> list[bytes]:
        """Keys whose time (last eight bytes) is in `start_ms <= time < end_ms`, oldest first."""

    def in_segments(self, start_ms: int, end_ms: int, limit: int) -> list[bytes]:
        """About `limit` keys of the segments within that time; only for segmented stores."""


@dataclass(frozen=True)
class Changes:
    """The changes of one batch to one state partition; sequences of one prefix run in parallel.

    Attributes:
        keys: state keys, each at most once.
        rows: for changelog and store; None removes the key.
        created: keys that had no row before.
        removed: how many of the None rows existed before.
        sink_keys: record keys, None for a record without key; records of one key keep their order.
        sink_values: None is a tombstone.
        sink_timestamps: ms.
        sink_order: for each sink record, the `SEQUENCE` of the input record that caused it; empty
            if the payload has none.
        stream_time_ms: after the batch.
        records: input records.
        newest_ms: the newest event time, if the batch's watermark holds stream time behind it.
        elements: element rows for changelog and store, by their keys; None removes one.
    """

    keys: Sequence[bytes]
    rows: Sequence[bytes | None]
    created: Sequence[bytes]
    sink_keys: Sequence[bytes | None]
    sink_values: Sequence[bytes | None]
    sink_timestamps: Sequence[int]
    stream_time_ms: int
    records: int
    dropped_null_key: int = 0
    dropped_late: int = 0
    removed: int = 0
    sink_order: list[int] = field(default_factory=list)
    newest_ms: int | None = None
    elements: Elements = field(default_factory=dict)


class Processor(ABC):
    """One kind of step, bound to one query."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of a payload."""

    @abstractmethod
    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        """Processes a batch, given the stream time before it (`NO_TIME` before the first)."""


@dataclass(frozen=True)
class Watermark:
    """How far stream time may advance at the end of a batch whose records have no order.

    Attributes:
        limit_ms: the upper bound of stream time.
        newest_ms: the newest event time before the batch; stream time may still be behind it.
    """

    limit_ms: int
    newest_ms: int = NO_TIME

    def after(self, stream_time_ms: int, newest_ms: int) -> int:
        """Stream time after a batch, given stream time before it and its newest event time."""
        return max(stream_time_ms, min(max(self.newest_ms, newest_ms), self.limit_ms))


class TimedProcessor(Processor):
    """A processor whose results depend on stream time."""

    @abstractmethod
    def process(
        self,
        payload: pa.Table,
        stream_time_ms: int,
        store: StoreView,
        watermark: Watermark | None = None,
    ) -> Changes:
        """Processes a batch.

        Args:
            stream_time_ms: before the batch.
            watermark: if None, each record advances stream time.  Otherwise stream time stays until
                the end of the batch; the returned `stream_time_ms` is the newest event time anyway.
        """


def row_schema(inputs: Sequence[Input]) -> pa.Schema:
    """The columns of a payload of rows (not of partials)."""
    fields = [
        pa.field(KEY, pa.binary()),
        pa.field(SIDE, pa.int8()),
        pa.field(PARTITION, pa.int32()),
        pa.field(OFFSET, pa.int64()),
        pa.field(TIMESTAMP, pa.int64()),
        pa.field(TOMBSTONE, pa.bool_()),
        pa.field(SEQUENCE, pa.int64()),
    ]
    columns = (c.column for each in inputs for c in each.columns)
    return pa.schema(fields + [pa.field(c.name, c.type.arrow()) for c in columns])


def arrival_order(payload: pa.Table) -> npt.NDArray[np.int64]:
    """Row numbers of a payload in the order in which to process its records.

    By `__seq` if it is given.  Otherwise as Kafka Streams picks them: each topic partition of each
    side is a queue in offset order, and the queue whose next record has the lowest event time is
    next (`PartitionGroup.nextRecord`); ties go to the left side, then to the lower partition.
    """
    if payload.num_rows and payload[SEQUENCE].null_count == 0:
        return np.argsort(payload[SEQUENCE].to_numpy(), kind="stable")
    sides, offsets = payload[SIDE].to_numpy().astype(np.int64), payload[OFFSET].to_numpy()
    queue = sides << 32 | payload[PARTITION].to_numpy()
    by_queue = np.argsort(queue, kind="stable")
    if (np.diff(offsets[by_queue])[np.diff(queue[by_queue]) == 0] < 0).any():
        by_queue = np.lexsort((offsets, queue))  # rare: the pieces of a queue are out of order
    queues = queue[by_queue]
    starts = np.flatnonzero(np.diff(queues, prepend=-1))
    if len(starts) <= 1:
        return by_queue
    times = payload[TIMESTAMP].to_numpy()
    lanes = np.split(times[by_queue], starts[1:])
    # A record that is older than its predecessor in the queue directly follows it.  The sort is
    # stable: for equal times the queues, and the records in each, keep their order.
    waits_for = np.concatenate([np.maximum.accumulate(lane) for lane in lanes])
    return by_queue[np.argsort(waits_for, kind="stable")]
