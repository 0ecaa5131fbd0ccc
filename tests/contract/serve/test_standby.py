"""A standby's promises to its readers, on RocksDB: rows and position of one moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast.config.settings import RocksDbSettings
from holdfast.errors import NoHolder
from holdfast.serve.contract import Change
from holdfast.serve.follow.standby import Standby
from holdfast.serve.follow.subscription import Ended, Subscription
from holdfast.serve.tables import StoredTable, candidates
from holdfast.sql import compile_text
from holdfast.state.changelog import FORMAT_VERSION, MARKER_KEY, CommitMarker, data_key
from holdfast.state.rocksdb import RocksDbStore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.transport.reader import Chunk
from holdfast.types.ids import OffsetRange

KEYS = [f"k{i:02}".encode() for i in range(40)]
SQL = """
CREATE STREAM s (id STRING KEY, a BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
"""


@pytest.fixture(scope="module")
def table() -> StoredTable:
    return candidates(compile_text(SQL), "app").tables[0].made(1)


@pytest.fixture
def standby(table: StoredTable, tmp_path: Path) -> Iterator[Standby]:
    store = TableStore(RocksDbStore(tmp_path / "store", RocksDbSettings()), windowed=False)
    store.load([], [], position=StorePosition("id", 0, 0, ""), marker=None)
    store.end_load()
    standby = Standby(table, 0, store, "7")
    yield standby
    store.close()


def marker(number: int) -> bytes:
    source = OffsetRange.of("s", {0: 0}, {0: number})
    return CommitMarker(
        FORMAT_VERSION, "app", "ctas_t", 0, 1, "p", "f", "c", source, number, number
    ).to_bytes()


def transaction(number: int, keys: list[bytes] = KEYS) -> Chunk:
    """Sets all keys to the same number."""
    start = number * 100
    names = [*map(data_key, keys), MARKER_KEY]
    values = [*(str(number).encode() for _ in keys), marker(number)]
    offsets = list(range(start, start + len(names)))
    return Chunk(list(names), list(values), offsets, [number] * len(names), offsets[-1] + 1)


def test_half_a_transaction_is_not_seen(standby: Standby) -> None:
    standby.begin()
    whole = transaction(1)
    standby.take(whole.part(0, 30, 130))
    assert standby.get(KEYS).rows == []
    assert standby.state().position == 0
    standby.at_end(130)
    assert standby.state().position == 0  # the end of what was read is inside a transaction
    standby.take(whole.part(30, len(whole), whole.position))
    standby.measure()
    found = standby.get(KEYS)
    assert [row for _, row in found.rows] == [b"1"] * len(KEYS)
    assert (found.state.position, found.state.rows) == (whole.position, len(KEYS))
    assert found.state.stream_time_ms == 1


def test_readers_see_whole_transactions_while_others_are_written(standby: Standby) -> None:
    """Every look-up and scan finds one number, and it is that of the position it is told."""
    standby.begin()
    standby.take(transaction(0))
    enough = threading.Event()

    def write() -> None:
        for number in count(1):
            standby.take(transaction(number))
            if enough.is_set():
                return

    thread = threading.Thread(target=write)
    thread.start()
    seen: set[int] = set()
    while thread.is_alive() and len(seen) < 20:
        found = standby.get(KEYS)
        numbers = {int(row) for _, row in found.rows}
        assert numbers == {found.state.position // 100}
        state, rows = standby.scan()
        assert {int(row) for _, row in rows} == {state.position // 100}
        seen |= numbers
    enough.set()
    thread.join()
    assert len(seen) == 20


def test_a_snapshot_and_what_follows_it_join(standby: Standby) -> None:
    async def run() -> None:
        standby.begin()
        standby.take(transaction(1, KEYS[:10]))
        subscription = Subscription(wants_old=True)
        state, rows = standby.snapshot(subscription)
        standby.take(transaction(2, KEYS[5:15]))
        assert {k for k, _ in rows} == set(KEYS[:10])
        change = await subscription.next()
        assert change.position > state.position
        assert change.keys == KEYS[5:15]
        assert change.old == [b"1"] * 5 + [None] * 5
        assert change.committed_ms == 2
        standby.unsubscribe(subscription)
        standby.take(transaction(3))
        subscription.end()
        with pytest.raises(Ended):
            await subscription.next()

    asyncio.run(run())


def test_who_does_not_ask_is_told_the_old_rows_of_removed_keys_only(standby: Standby) -> None:
    async def run() -> None:
        standby.begin()
        standby.take(transaction(1, KEYS[:3]))
        subscription = Subscription()
        standby.subscribe(subscription)
        whole = transaction(2, KEYS[1:5])
        whole.values[1] = whole.values[3] = None
        standby.take(whole)
        change = await subscription.next()
        assert change.rows == [b"2", None, b"2", None]
        assert change.old == [None, b"1", None, None]
        assert standby.get(KEYS).rows == [(KEYS[0], b"1"), (KEYS[1], b"2"), (KEYS[3], b"2")]

    asyncio.run(run())


def test_nobody_may_subscribe_before_it_follows(standby: Standby) -> None:
    async def run() -> None:
        with pytest.raises(NoHolder, match="not following"):
            standby.subscribe(Subscription())

    asyncio.run(run())


def test_records_that_it_has_are_left_out(standby: Standby) -> None:
    async def run() -> list[Change]:
        standby.begin()
        standby.take(transaction(2))
        subscription = Subscription()
        standby.subscribe(subscription)
        standby.take(transaction(1))
        standby.take(transaction(3))
        return [await subscription.next()]

    (change,) = asyncio.run(run())
    assert set(change.rows) == {b"3"}


def test_ends_of_transactions_move_the_position_without_a_change(standby: Standby) -> None:
    standby.begin()
    last = transaction(1)
    standby.take(last)
    standby.at_end(last.position + 1)
    state = standby.state()
    assert (state.position, state.end, state.lag) == (last.position + 1, last.position + 1, 0)
    assert standby.changed_at == last.position
