"""A table's changes for an aggregate over it: each row's old and new value.

State: the table's rows, by primary key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.tasks.processors.base import Changes, StoreView
from holdfast.tasks.processors.records import (
    Emitted,
    Overlay,
    Records,
    RowProcessor,
    Side,
    sink_rows,
)
from holdfast.types.statements.topology import ChangesStep, Query

__all__ = ["ChangesProcessor"]


@dataclass(frozen=True, slots=True)
class _Change:
    """A row's old and new value, the time of the change, and the record that caused it."""

    old: bytes | None
    new: bytes | None
    time: int
    cause: int


class ChangesProcessor(RowProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        if not isinstance(query.step, ChangesStep):
            raise TypeError(f"{query.id} has no changes step")
        self._side = Side(query.step.input)
        self._groups = self._side.columns[: query.step.groups]
        self._values = query.sink.value_columns
        self._sink = SinkRecords(query.sink)

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        records = Records.read(payload, (self._side,))
        table = Overlay(store, (k for k in records.keys if k is not None))
        changes: list[_Change] = []
        for _, key, row, time, cause in records:
            if key is None:
                continue
            old = table.get(key)
            table.put(key, row)
            if row is not None or old is not None:
                changes.append(_Change(old, row, time, cause))
        return self._emitted(changes).changes(
            table, records, stream_time_ms, dropped_null_key=records.keys.count(None)
        )

    def _emitted(self, changes: list[_Change]) -> Emitted:
        """Writes a change as one record, or as one per group if it moves to another group."""
        old, new = (
            self._groups_of([c.old for c in changes]),
            self._groups_of([c.new for c in changes]),
        )
        parts = [
            part
            for change, before, after in zip(changes, old, new, strict=True)
            for part in _parts(change, before, after)
        ]
        was = self._side.decode([p.old for p in parts])
        now = self._side.decode([p.new for p in parts])
        has_old = pa.array([p.old is not None for p in parts], pa.bool_())
        has_new = pa.array([p.new is not None for p in parts], pa.bool_())
        named = {"HAS_OLD": has_old, "HAS_NEW": has_new}
        named |= {f"OLD_{name}": array for name, array in was.items()}
        named |= {f"NEW_{name}": array for name, array in now.items()}
        groups = [pc.if_else(has_new, now[c.name], was[c.name]) for c in self._groups]
        return sink_rows(
            self._sink,
            groups,
            [named[c.name] for c in self._values],
            [False] * len(parts),
            ([p.time for p in parts], [p.cause for p in parts]),
        )

    def _groups_of(self, rows: list[bytes | None]) -> list[bytes | None]:
        """Each row's group, as the sink's key; None if there is no row or a key column is null.

        The aggregate stores groups under these bytes, so only the bytes decide whether two groups
        are equal: for `==` a NaN differs from itself, and 0.0 equals -0.0.
        """
        named = self._side.decode(rows)
        arrays = [named[c.name] for c in self._groups]
        parts = zip(*(a.is_valid().to_pylist() for a in arrays), strict=True)
        keys = zip(self._sink.keys(arrays), parts, strict=True)
        return [key if all(there) else None for key, there in keys]


def _parts(change: _Change, before: bytes | None, after: bytes | None) -> Iterator[_Change]:
    """One record if the group stays; otherwise the old value is taken back first."""
    if before is not None and before == after:
        yield change
        return
    if before is not None:
        yield _Change(change.old, None, change.time, change.cause)
    if after is not None:
        yield _Change(None, change.new, change.time, change.cause)
