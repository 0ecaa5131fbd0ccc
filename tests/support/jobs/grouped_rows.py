"""An aggregation over plain tuples: payloads made by hand, rows and results kept in dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

from holdfast.tasks.evaluate.keys import split_windowed
from holdfast.tasks.processors.aggregates.state import HAS_NEW, HAS_OLD, WINDOW
from holdfast.tasks.processors.base import KEY, NO_TIME, Changes, Processor, Watermark
from holdfast.tasks.processors.kinds import processor_of
from holdfast.tasks.processors.timed import processed
from holdfast.types.columns.schema import BIGINT, STRING, Base, Column, SqlType
from holdfast.types.statements.topology import (
    OFFSET,
    PARTITION,
    SEQUENCE,
    TIMESTAMP,
    AggregateCall,
    AggregateStep,
    Emit,
    Query,
    Sink,
    Source,
    Window,
    WindowKind,
)
from tests.support.jobs.rows_view import RowsView
from tests.support.values.expressions import condition, duckdb_column, source_column

__all__ = ["Change", "Grouped", "Record", "query_of"]

Record = tuple[str | None, int, int]  # key, value, time in ms
# Key, window's bounds, value (None: a tombstone), timestamp.
Change = tuple[str, tuple[int, int] | None, list[Any] | None, int]

_X = Column("X", BIGINT)
_LIST = SqlType(Base.ARRAY, element=BIGINT)


def _calls(column: str) -> tuple[AggregateCall, ...]:
    argument = source_column(Column(column, BIGINT)).expression
    return (
        AggregateCall("__a0", "COUNT", (), (), BIGINT),
        AggregateCall("__a1", "SUM", (argument,), (), BIGINT),
        AggregateCall("__a2", "COLLECT_LIST", (argument,), (), _LIST),
    )


def query_of(
    window: Window | None = None,
    emit: Emit = Emit.RECORD,
    having: str | None = None,
    *,
    table: bool = False,
    lists: bool = True,
) -> Query:
    """COUNT(*), SUM(X) and, with `lists`, COLLECT_LIST(X) by K."""
    calls = _calls("X")[: 3 if lists else 2]
    outputs = tuple(duckdb_column(Column(f"C{i}", c.type), c.name) for i, c in enumerate(calls))
    undo = _calls("OLD_X") if table else ()
    keys = (source_column(Column("K", STRING)),)
    step = AggregateStep(keys, window, calls, outputs, condition(having), emit, undo)
    sink = Sink("T", "TABLE", "T", (Column("K", STRING),), tuple(o.column for o in outputs))
    return Query("ctas_t", "", Source("S", "STREAM", "s", (), (_X,)), None, step, sink)


class Grouped:
    """One state partition of a query; asserts that `Changes` count rows as they are."""

    def __init__(self, query: Query) -> None:
        assert isinstance(query.step, AggregateStep)
        self._step = query.step
        self._processor = processor_of(query)
        self.rows: dict[bytes, bytes] = {}
        self.stream_time = self.newest = NO_TIME
        self.dropped_late = self.dropped_null_key = 0
        self.order: list[int] = []
        self._offset = 0
        self._read: dict[tuple[str, tuple[int, int] | None], list[Any] | None] = {}

    def use(self, processor: Processor) -> None:
        """Another processor of the same query."""
        self._processor = processor

    def feed(self, records: Sequence[Record], watermark_ms: int | None = None) -> list[Change]:
        """A batch of records, in the order of their offsets."""
        rows = [r for record in records for r in self._of_record(*record)]
        return self._apply(rows, watermark_ms)

    def change(self, key: str, old: int | None, new: int | None) -> list[Change]:
        """A batch of one change of a table's row."""
        row = {**self._place(key, 0), HAS_OLD: old is not None, HAS_NEW: new is not None}
        return self._apply([{**row, **_partials("p", new), **_partials("q", old)}])

    def table(self) -> dict[tuple[str, tuple[int, int] | None], list[Any]]:
        """The table that a reader of the sink has after all changes of `feed` so far."""
        return {(k, w): v for (k, w), v in self._read.items() if v is not None}

    def _of_record(self, key: str | None, value: int, time: int) -> list[dict[str, Any]]:
        row = {**self._place(key, time), **_partials("p", value)}
        window = self._step.window
        if window is None or window.kind is WindowKind.SESSION:
            return [row]
        last = time - time % window.advance_ms
        starts = range(last, max(time - window.size_ms, -1), -window.advance_ms)
        return [{**row, WINDOW: start} for start in starts]

    def _place(self, key: str | None, time: int) -> dict[str, Any]:
        self._offset += 1
        return {
            KEY: None if key is None else key.encode(), PARTITION: 0, OFFSET: self._offset,
            TIMESTAMP: time, SEQUENCE: 100 + self._offset,
        }  # fmt: skip

    def _apply(self, rows: list[dict[str, Any]], watermark_ms: int | None = None) -> list[Change]:
        payload = pa.Table.from_pylist(rows, self._processor.schema)
        view = RowsView(self.rows)
        watermark = None if watermark_ms is None else Watermark(watermark_ms, self.newest)
        changes = processed(self._processor, payload, self.stream_time, view, watermark)
        self.newest = changes.stream_time_ms if changes.newest_ms is None else changes.newest_ms
        self._count(changes)
        for state_key, row in zip(changes.keys, changes.rows, strict=True):
            if row is None:
                del self.rows[state_key]
            else:
                self.rows[state_key] = row
        self.stream_time = changes.stream_time_ms
        self.dropped_late += changes.dropped_late
        self.dropped_null_key += changes.dropped_null_key
        self.order = changes.sink_order
        return self._told(changes)

    def _count(self, changes: Changes) -> None:
        assert len(set(changes.keys)) == len(changes.keys)
        put = {k for k, r in zip(changes.keys, changes.rows, strict=True) if r is not None}
        assert set(changes.created) == put - set(self.rows)
        assert changes.removed == len(changes.keys) - len(put)
        assert len(changes.sink_order) in (0, len(changes.sink_keys))

    def _told(self, changes: Changes) -> list[Change]:
        columns = (changes.sink_keys, changes.sink_values, changes.sink_timestamps)
        told = [self._one(*row) for row in zip(*columns, strict=True)]
        self._read.update({(key, bounds): value for key, bounds, value, _ in told})
        return told

    def _one(self, key: bytes | None, value: bytes | None, time: int) -> Change:
        assert key is not None
        bounds = None
        if self._step.window is not None:
            key, *both = split_windowed(key, self._step.window.kind, self._step.window.size_ms)
            bounds = (both[0], both[1])
        found = None if value is None else list(orjson.loads(value).values())
        return key.decode(), bounds, found, time


def _partials(letter: str, value: int | None) -> dict[str, Any]:
    there = value is not None
    return {
        f"{letter}0_0": int(there), f"{letter}1_0": value, f"{letter}2_0": [value] if there else [],
    }  # fmt: skip
