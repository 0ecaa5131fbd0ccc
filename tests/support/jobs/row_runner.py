"""Row processors fed by hand: records of sides in, sink records out, the store kept between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa

from holdfast.state.memory import MemoryStore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.tasks.processors.base import NO_TIME
from holdfast.tasks.processors.kinds import processor_of
from holdfast.tasks.processors.layout import layout_of
from holdfast.types.columns.schema import STRING, Column
from holdfast.types.statements.topology import (
    Format,
    Input,
    JoinForm,
    JoinKind,
    JoinStep,
    JoinWindow,
    Query,
    Sink,
    Source,
)
from tests.support.values.expressions import condition as filter_of
from tests.support.values.expressions import duckdb_column, source_column

__all__ = ["Record", "Row", "RowRunner", "Sent", "join_query", "source_input"]

KEY = Column("ID", STRING)


@dataclass(frozen=True)
class Row:
    """A record: side, key, the text its one column holds (None: a tombstone), time in ms."""

    side: int
    key: str | None
    text: str | None
    time: int = 0


@dataclass(frozen=True)
class Record:
    """A record of any columns; `values` None is a tombstone, `cause` its place among all."""

    side: int
    key: bytes | None
    values: dict[str, Any] | None
    time: int
    cause: int


@dataclass(frozen=True)
class Sent:
    """A sink record; `value` None is a tombstone."""

    key: str | None
    value: Any
    time: int
    cause: int


def source_input(name: str, kind: str = "STREAM", column: Column | None = None) -> Input:
    """An input with the key ID and one carried column, named like its source."""
    value = column or Column(name, STRING)
    source = Source(name, kind, name.lower(), (KEY,), (value,))
    return Input(source, (source_column(KEY),), (source_column(value),))


def join_query(
    form: JoinForm,
    kind: JoinKind,
    *,
    window: JoinWindow | None = None,
    condition: str | None = None,
    history_ms: int | None = None,
    **step: Any,
) -> Query:
    """L joined with R: key ID, values L and R."""
    table = form is JoinForm.TABLE_TABLE
    left = source_input("L", "TABLE" if table else "STREAM")
    right = source_input("R", "STREAM" if form is JoinForm.STREAM_STREAM else "TABLE")
    values = (Column("L", STRING), Column("R", STRING))
    join = JoinStep(
        form,
        kind,
        left,
        right,
        (duckdb_column(KEY),),
        tuple(duckdb_column(v) for v in values),
        window=window,
        filter=filter_of(condition),
        history_ms=history_ms,
        **step,
    )
    sink = Sink("O", "TABLE" if table else "STREAM", "o", (KEY,), values, Format.KAFKA)
    return Query("csas_o", "", left.source, None, join, sink)


class RowRunner:
    """One query over one state partition in memory."""

    def __init__(self, query: Query) -> None:
        self.processor = processor_of(query)
        self.layout = layout_of(query)
        self.store = TableStore(
            MemoryStore(),
            windowed=self.layout.windowed,
            segmented=self.layout.segmented,
        )
        self.stream_time = NO_TIME
        self.dropped_late = self.dropped_null_key = 0
        self._inputs = query.inputs
        self._count = 0

    def send(self, *rows: Row) -> list[Sent]:
        """One batch; each record's place in all of them is its cause."""
        return self.process([self._record(row) for row in rows])

    def process(self, records: Sequence[Record]) -> list[Sent]:
        """One batch of records with any columns."""
        payload = self._payload(records)
        changes = self.processor.process(payload, self.stream_time, self.store)
        self._apply(changes.keys, changes.rows, changes.created, changes.removed)
        self.stream_time = changes.stream_time_ms
        self.dropped_late += changes.dropped_late
        self.dropped_null_key += changes.dropped_null_key
        self._expire()
        sent = zip(
            changes.sink_keys,
            changes.sink_values,
            changes.sink_timestamps,
            changes.sink_order,
            strict=True,
        )
        return [Sent(_text(k), None if v is None else orjson.loads(v), t, c) for k, v, t, c in sent]

    def send_split(self, rows: Sequence[Row], cuts: Sequence[int]) -> list[Sent]:
        """As many batches as there are cuts, and one."""
        bounds = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
        parts = (rows[a:b] for a, b in pairwise(bounds))
        return [sent for part in parts for sent in self.send(*part)]

    def _record(self, row: Row) -> Record:
        self._count += 1
        columns = [c.column.name for c in self._inputs[row.side].columns]
        values = None if row.text is None else dict.fromkeys(columns, row.text)
        key = None if row.key is None else row.key.encode()
        return Record(row.side, key, values, row.time, self._count - 1)

    def _payload(self, records: Sequence[Record]) -> pa.Table:
        columns: dict[str, list[Any]] = {
            "__key": [r.key for r in records],
            "__side": [r.side for r in records],
            "__partition": [0] * len(records),
            "__offset": list(range(len(records))),
            "__timestamp": [r.time for r in records],
            "__tombstone": [r.values is None for r in records],
            "__seq": [r.cause for r in records],
        }
        for side, each in enumerate(self._inputs):
            for name in (c.column.name for c in each.columns):
                values = [r.values if r.side == side else None for r in records]
                columns[name] = [None if v is None else v[name] for v in values]
        schema = self.processor.schema
        return pa.table([pa.array(columns[f.name], f.type) for f in schema], schema)

    def _apply(
        self,
        keys: Sequence[bytes],
        rows: Sequence[bytes | None],
        created: Sequence[bytes],
        removed: int,
    ) -> None:
        self.store.apply(
            keys,
            rows,
            created=created,
            removed=removed,
            position=StorePosition("t", 0, 0, "f"),
            marker=None,
        )
        assert self.store.rows == sum(1 for _ in self.store.scan())

    def _expire(self) -> None:
        if self.layout.retention_ms is not None and self.stream_time != NO_TIME:
            old = self.store.expired(self.stream_time - self.layout.retention_ms, 1000)
            self._apply(old, [None] * len(old), [], len(old))


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode()
