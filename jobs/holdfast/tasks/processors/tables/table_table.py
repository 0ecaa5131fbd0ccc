"""Two tables joined by their primary keys.

State: both tables' rows, under `L` or `R` and the key.  A change is emitted by the rules of Kafka
Streams: if the other side has a row, and for an outer side also if it has or had a row itself.
With a WHERE both the old and the new result are known, and a row that never passed leaves no
tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from holdfast.tasks.pack.rows import row_time
from holdfast.tasks.processors.base import Changes, StoreView
from holdfast.tasks.processors.pairs import Pair, Pairs
from holdfast.tasks.processors.records import Overlay, Records, RowProcessor
from holdfast.types.statements.topology import Emit, JoinKind, JoinStep, Query

__all__ = ["TableTableProcessor", "home_of"]

_PREFIX = (b"L", b"R")
_Rows = tuple[bytes | None, bytes | None]


def home_of(state_key: bytes) -> bytes:
    """The key of either table's row, from its state key."""
    return state_key[len(_PREFIX[0]) :]


class TableTableProcessor(RowProcessor):
    """Knows one query's columns; holds no data between calls."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        step = query.step
        if not isinstance(step, JoinStep):
            raise TypeError(f"{query.id} has no join step")
        self._kept = (
            step.kind in (JoinKind.LEFT, JoinKind.FULL),
            step.kind in (JoinKind.RIGHT, JoinKind.FULL),
        )
        self._every = step.emit is Emit.RECORD
        self._pairs = Pairs(step, query.sink)

    def process(self, payload: pa.Table, stream_time_ms: int, store: StoreView) -> Changes:
        records = Records.read(payload, (self._pairs.left, self._pairs.right))
        keys = dict.fromkeys(k for k in records.keys if k is not None)
        rows = Overlay(store, (p + k for k in keys for p in _PREFIX))
        pairs = self._changes(records, rows)
        emitted = self._pairs.of_table(pairs if self._every else _last(pairs))
        return emitted.changes(
            rows,
            records,
            stream_time_ms,
            dropped_null_key=sum(k is None for k in records.keys),
        )

    def _changes(self, records: Records, rows: Overlay) -> list[Pair]:
        pairs: list[Pair] = []
        for side, key, row, time, cause in records:
            if key is None:
                continue
            mine = _PREFIX[side] + key
            old, other = rows.get(mine), rows.get(_PREFIX[1 - side] + key)
            rows.put(mine, row)
            if other is None and not (self._kept[side] and (row or old)):
                continue
            now, was = (row, other), (old, other)
            if side == 1:
                now, was = (other, row), (other, old)
            pairs.append(
                Pair(
                    key,
                    *now,
                    time if other is None else max(time, row_time(other)),
                    cause,
                    gone=not self._is_row(now),
                    was=was if self._is_row(was) else None,
                )
            )
        return pairs

    def _is_row(self, rows: _Rows) -> bool:
        left, right = rows
        if left is None:
            return right is not None and self._kept[1]
        return right is not None or self._kept[0]


def _last(pairs: Iterable[Pair]) -> list[Pair]:
    """The last pair of each key, with the row before the key's first pair as its old row."""
    last: dict[bytes | None, Pair] = {}
    for pair in pairs:
        before = last.get(pair.key)
        if before is not None:
            pair.was = before.was
        last[pair.key] = pair
    return list(last.values())
