"""Expired rows leave a store exactly once, whatever the batch did to them."""

from __future__ import annotations

from holdfast.state.memory import MemoryStore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.tasks.evaluate.keys import window_key
from holdfast.tasks.expiry import expiring
from holdfast.tasks.processors.base import Changes


def _changes(keys: list[bytes], rows: list[bytes | None], removed: int) -> Changes:
    return Changes(keys, rows, [], [], [], [], 100, 1, removed=removed)


def test_a_row_that_a_batch_removes_does_not_expire_as_well() -> None:
    store = TableStore(MemoryStore(), windowed=True)
    old, older, new = (window_key(b"k", start) for start in (5, 4, 50))
    rows: list[bytes | None] = [b"1"] * 3
    at = StorePosition("topic", 1, 0, "statement")
    keys = [old, older, new]
    store.apply(keys, rows, created=keys, removed=0, position=at, marker=None)
    assert expiring(store, _changes([old], [b"2"], 0), 10) == [older, old]
    assert expiring(store, _changes([old, new], [None, None], 2), 10) == [older]


def test_a_store_knows_what_lies_between_two_times() -> None:
    store = TableStore(MemoryStore(), windowed=True)
    keys = [window_key(key, start) for start in (7, -3, 5) for key in (b"b", b"a")]
    at = StorePosition("topic", 1, 0, "statement")
    store.apply(keys, [b"1"] * 6, created=keys, removed=0, position=at, marker=None)
    found = store.in_time(-3, 7)
    assert found == [window_key(k, start) for start in (-3, 5) for k in (b"a", b"b")]
    assert store.in_time(6, 7) == store.in_time(7, 7) == []
