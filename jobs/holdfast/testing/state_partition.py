"""The one state partition of a query in a test: a state task without its transaction."""

from __future__ import annotations

import pyarrow as pa

from holdfast.state.memory import MemoryStore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.tasks.compatibility import state_fits
from holdfast.tasks.expiry import expired
from holdfast.tasks.processors.base import NO_TIME, Changes
from holdfast.tasks.processors.kinds import processor_of
from holdfast.tasks.processors.layout import layout_of
from holdfast.types.statements.topology import Query

__all__ = ["StatePartition"]

_NOWHERE = StorePosition(topic_id="", offset=0, written_ms=0, fingerprint="")


class StatePartition:
    """Owns the rows and the stream time of a query, from batch to batch."""

    def __init__(self, query: Query) -> None:
        self._canonical = query.canonical()
        self._processor = processor_of(query)
        self._layout = layout_of(query)
        self._store = TableStore(
            MemoryStore(), windowed=self._layout.windowed, segmented=self._layout.segmented
        )
        self._stream_time_ms = NO_TIME

    def takes(self, query: Query) -> bool:
        """Continues with another query if it can read the stored rows; False if it cannot."""
        if not state_fits(self._canonical, query):
            return False
        self._canonical, self._processor = query.canonical(), processor_of(query)
        return True

    @property
    def schema(self) -> pa.Schema:
        """The columns of a payload."""
        return self._processor.schema

    def process(self, payload: pa.Table) -> Changes:
        """Applies a batch; rows that have expired by its end leave the store."""
        changes = self._processor.process(payload, self._stream_time_ms, self._store)
        self._stream_time_ms = changes.stream_time_ms
        gone, changes = expired(self._store, self._layout, changes)
        dead: list[bytes | None] = [None] * len(gone)
        self._store.apply(
            [*changes.keys, *gone],
            [*changes.rows, *dead],
            created=changes.created,
            removed=len(gone) + changes.removed,
            position=_NOWHERE,
            marker=None,
            elements=changes.elements,
        )
        return changes

    def rows(self) -> list[tuple[bytes, bytes]]:
        """All state keys and their rows."""
        return list(self._store.scan(b"", None))
