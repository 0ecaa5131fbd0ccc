"""Expiry: the rows that leave a table with a batch because their time is over."""

from __future__ import annotations

from dataclasses import replace

from holdfast.state.elements import state_key_of
from holdfast.state.table_store import TableStore
from holdfast.tasks.processors.base import NO_TIME, Changes
from holdfast.tasks.processors.layout import Layout

__all__ = ["expired", "expiring"]

_ROWS_MAX = 20_000  # expired windows removed per batch and state partition
_ELEMENTS_MAX = 100_000  # of their element rows


def expired(store: TableStore, layout: Layout, changes: Changes) -> tuple[list[bytes], Changes]:
    """The state keys that expire with a batch, and its changes with the elements that go.

    A row with more elements than a batch removes stays until the last of them has gone.
    """
    kept_ms = layout.retention_ms
    if kept_ms is None or changes.stream_time_ms == NO_TIME:
        return [], changes
    keys = expiring(store, changes, changes.stream_time_ms - kept_ms)
    if not layout.elements or not keys:
        return keys, changes
    whole, stored = store.elements_of(keys, _ELEMENTS_MAX)
    gone = set(keys[:whole])
    late = [name for name in changes.elements if state_key_of(name) in gone]
    dead: dict[bytes, bytes | None] = dict.fromkeys([*stored, *late])
    return keys[:whole], replace(changes, elements={**changes.elements, **dead})


def expiring(store: TableStore, changes: Changes, before_ms: int) -> list[bytes]:
    """Keys with a time before `before_ms`, except those that the batch itself removes.

    Otherwise an expired session that has also merged would count as removed twice.
    """
    found = store.expired(before_ms, _ROWS_MAX)
    if not changes.removed:
        return found
    gone = {k for k, row in zip(changes.keys, changes.rows, strict=True) if row is None}
    return [key for key in found if key not in gone]
