"""Shared parts of the row processors: a payload as lists in arrival order, and the batch's store.

Rows travel as bytes (`tasks.pack.rows`): a join of single records costs a loop over bytes and
dicts.  Columns are only decoded for the emitted rows, all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.tasks.pack.rows import RowCodec
from holdfast.tasks.processors.base import (
    KEY,
    SIDE,
    Changes,
    Processor,
    StoreView,
    arrival_order,
    row_schema,
)
from holdfast.types.statements.topology import SEQUENCE, TIMESTAMP, TOMBSTONE, Input, Query

__all__ = ["Emitted", "Overlay", "Records", "RowProcessor", "Side", "one_array", "sink_rows"]


class RowProcessor(Processor):
    """Base of the processors whose rows do not expire."""

    def __init__(self, query: Query) -> None:
        self._schema = row_schema(query.inputs)

    @property
    def schema(self) -> pa.Schema:
        return self._schema


class Side:
    """One input of a step: its carried columns, and how they are kept as a row."""

    def __init__(self, each: Input) -> None:
        self.columns = [c.column for c in each.columns]
        self.keys = [k.column for k in each.keys]
        self._codec = RowCodec([c.type.arrow() for c in self.columns])

    def encode(self, payload: pa.Table, at: npt.NDArray[np.int64]) -> list[bytes]:
        """Encodes the payload's rows at these places."""
        arrays = [one_array(payload[c.name].take(at)) for c in self.columns]
        return list(self._codec.encode(payload[TIMESTAMP].to_numpy()[at], arrays))

    def decode(self, rows: Sequence[bytes | None]) -> dict[str, pa.Array]:
        """The columns of rows by name; nulls for a missing row."""
        _, _, arrays = self._codec.decode(rows)
        return {c.name: a for c, a in zip(self.columns, arrays, strict=True)}


@dataclass(frozen=True)
class Records:
    """A payload's records in arrival order, one list per field; a `row` of None is a tombstone.

    Attributes:
        causes: the records' `SEQUENCE`, 0 if the payload has none.
        ordered: whether the payload has a `SEQUENCE`.
    """

    sides: list[int]
    keys: list[bytes | None]
    rows: list[bytes | None]
    times: list[int]
    causes: list[int]
    ordered: bool

    @classmethod
    def read(cls, payload: pa.Table, sides: Sequence[Side]) -> Records:
        """Reads a payload of rows (`base.row_schema`) of these inputs."""
        order = arrival_order(payload)
        side_of = payload[SIDE].to_numpy()[order]
        alive = ~payload[TOMBSTONE].to_numpy()[order]
        rows: list[bytes | None] = [None] * len(order)
        for number, side in enumerate(sides):
            places = np.flatnonzero((side_of == number) & alive)
            for place, row in zip(
                places.tolist(), side.encode(payload, order[places]), strict=True
            ):
                rows[place] = row
        ordered = payload.num_rows > 0 and payload[SEQUENCE].null_count == 0
        causes = payload[SEQUENCE].to_numpy()[order].tolist() if ordered else [0] * len(order)
        return cls(
            side_of.tolist(),
            payload[KEY].take(order).to_pylist(),
            rows,
            payload[TIMESTAMP].to_numpy()[order].tolist(),
            causes,
            ordered,
        )

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[tuple[int, bytes | None, bytes | None, int, int]]:
        """(side, key, row, time, cause) of each record."""
        return zip(self.sides, self.keys, self.rows, self.times, self.causes, strict=True)


class Overlay:
    """A store as a batch sees it: the batch's own writes over the stored rows."""

    def __init__(self, store: StoreView, keys: Iterable[bytes] = ()) -> None:
        """Reads `keys` at once; other keys are read one by one on demand."""
        self._store = store
        wanted = list(dict.fromkeys(keys))
        self._before = dict(zip(wanted, store.get_many(wanted), strict=True))
        self._now: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        if key in self._now:
            return self._now[key]
        if key not in self._before:
            self._before[key] = self._store.get_many([key])[0]
        return self._before[key]

    def put(self, key: bytes, row: bytes | None) -> None:
        self._now[key] = row

    def known(self, key: bytes, row: bytes | None) -> None:
        """Adds a stored row that a scan has found."""
        self._before[key] = row

    def changes(self) -> tuple[list[bytes], list[bytes | None], list[bytes], int]:
        """(keys, rows, new keys, number of removed rows): the differences from the store."""
        self._read_missing()
        before = self._before
        net = sorted((k, r) for k, r in self._now.items() if r != before[k])
        keys, rows = [k for k, _ in net], [r for _, r in net]
        created = [k for k, r in net if r is not None and before[k] is None]
        return keys, rows, created, sum(r is None for r in rows)

    def _read_missing(self) -> None:
        unread = [k for k in self._now if k not in self._before]
        self._before.update(zip(unread, self._store.get_many(unread), strict=True))


@dataclass(frozen=True)
class Emitted:
    """Sink records, and the `SEQUENCE` of the record that caused each."""

    keys: list[bytes | None]
    values: list[bytes | None]
    times: list[int]
    causes: list[int]

    def pick(self, places: Sequence[int]) -> Emitted:
        """The records at these places."""
        return Emitted(
            [self.keys[i] for i in places],
            [self.values[i] for i in places],
            [self.times[i] for i in places],
            [self.causes[i] for i in places],
        )

    def changes(
        self,
        store: Overlay,
        records: Records,
        stream_time_ms: int,
        *,
        dropped_null_key: int = 0,
        dropped_late: int = 0,
    ) -> Changes:
        """The changes of a whole batch: these records, and the rows that the batch has written."""
        keys, rows, created, removed = store.changes()
        return Changes(
            keys=keys,
            rows=rows,
            created=created,
            sink_keys=self.keys,
            sink_values=self.values,
            sink_timestamps=self.times,
            stream_time_ms=max(stream_time_ms, max(records.times, default=stream_time_ms)),
            records=len(records),
            removed=removed,
            sink_order=self.causes if records.ordered else [],
            dropped_null_key=dropped_null_key,
            dropped_late=dropped_late,
        )


def sink_rows(
    sink: SinkRecords,
    keys: Sequence[pa.Array],
    values: Sequence[pa.Array],
    tombstones: Sequence[bool],
    facts: tuple[Sequence[int], Sequence[int]],
) -> Emitted:
    """Sink records from columns.

    Args:
        keys: the key columns, then the window's start and end if the sink's keys have a window.
        values: the value columns.
        tombstones: which rows are deleted.
        facts: the rows' times in ms, and their causes.
    """
    times, causes = facts
    width = sink.key_width
    encoded = sink.keys(keys[:width])
    if len(keys) > width:
        starts, ends = (a.to_pylist() for a in keys[width:])
        encoded = sink.windowed(encoded, starts, ends)
    payloads = list(sink.values(values))
    stamps = list(sink.times(keys[:width], values, tombstones, times))
    emitted = Emitted(
        encoded,
        [None if gone else v for gone, v in zip(tombstones, payloads, strict=True)]
        if any(tombstones)
        else payloads,
        stamps,
        list(causes),
    )
    if min(stamps, default=0) >= 0:
        return emitted
    return emitted.pick([i for i, stamp in enumerate(stamps) if stamp >= 0])


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
