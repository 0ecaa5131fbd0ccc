from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config.settings import RocksDbSettings, StateSettings
from holdfast.errors import InvalidConfig, StoreCorrupted
from holdfast.state import open_table_store, survey_positions
from holdfast.state.memory import MemoryStore
from holdfast.state.rocksdb import RocksDbStore
from holdfast.state.table_store import StorePosition, TableStore
from holdfast.state.times import window_start_ms
from holdfast.state.volume import Volume, claim
from tests.unit.state.changelog_model import marker


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    volume = claim(tmp_path / "state", expected=1, wait_s=0)
    yield volume
    volume.release()


def at(offset: int) -> StorePosition:
    return StorePosition("topic-id", offset, 1000 + offset, "f" * 16)


def windowed_key(key: bytes, start_ms: int) -> bytes:
    return key + start_ms.to_bytes(8, "big", signed=True)


def test_a_new_table_knows_nothing() -> None:
    table = TableStore(MemoryStore(), windowed=False)
    assert (table.position, table.marker, table.rows) == (None, None, 0)
    assert list(table.scan()) == []


def test_rows_count_position_and_marker_move_together(tmp_path: Path) -> None:
    table = TableStore(RocksDbStore(tmp_path, RocksDbSettings()), windowed=False)
    table.apply(
        [b"a", b"b"],
        [b"1", b"2"],
        created=[b"a", b"b"],
        removed=0,
        position=at(3),
        marker=marker(0),
    )
    table.apply([b"a", b"c"], [None, b"3"], created=[b"c"], removed=1, position=at(6), marker=None)
    table.close()
    table = TableStore(RocksDbStore(tmp_path, RocksDbSettings()), windowed=False)
    assert list(table.scan()) == [(b"b", b"2"), (b"c", b"3")]
    assert table.get_many([b"c", b"a"]) == [b"3", None]
    assert (table.rows, table.position, table.marker) == (2, at(6), marker(0))
    table.close()


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 3_500])
def test_any_number_of_rows_is_found_in_the_order_of_the_keys(tmp_path: Path, count: int) -> None:
    table = TableStore(RocksDbStore(tmp_path, RocksDbSettings()), windowed=False)
    keys = [b"%d" % n for n in reversed(range(count))]
    held = [key for key in keys if int(key) % 3]
    table.apply(held, held, created=held, removed=0, position=at(1), marker=None)
    assert table.get_many(keys) == [key if int(key) % 3 else None for key in keys]
    table.close()


def test_of_a_repeated_key_the_last_value_counts_as_in_the_changelog() -> None:
    table = TableStore(MemoryStore(), windowed=True)
    key = windowed_key(b"a", 0)
    table.apply([key], [b"1"], created=[key], removed=0, position=at(1), marker=None)
    # A window that changes and expires in one batch.
    table.apply([key, key], [b"2", None], created=[], removed=1, position=at(2), marker=None)
    assert (list(table.scan()), table.rows, table.expired(10, 9)) == ([], 0, [])


def test_columns_must_be_equally_long() -> None:
    table = TableStore(MemoryStore(), windowed=False)
    with pytest.raises(ValueError, match="2 keys and 1 rows"):
        table.apply([b"a", b"b"], [b"1"], created=[], removed=0, position=at(1), marker=None)
    assert table.position is None


def test_more_rows_cannot_leave_than_there_are() -> None:
    table = TableStore(MemoryStore(), windowed=False)
    with pytest.raises(StoreCorrupted, match=r"2 rows are removed from a store of 0 \(\+1\)"):
        table.apply([b"a"], [None], created=[b"a"], removed=2, position=at(1), marker=None)
    assert table.position is None


def test_windows_expire_oldest_first_also_before_the_epoch() -> None:
    table = TableStore(MemoryStore(), windowed=True)
    starts = [0, -1, 60_000, -(2**62), 2**62, 1, -60_000]
    keys = [windowed_key(b"k%d" % (n % 2), start) for n, start in enumerate(starts)]
    table.apply(keys, [b"v"] * 7, created=keys, removed=0, position=at(9), marker=None)
    expired = [window_start_ms(key) for key in table.expired(1, 100)]
    assert expired == [-(2**62), -60_000, -1, 0]
    assert table.expired(1, 2) == [windowed_key(b"k1", -(2**62)), windowed_key(b"k0", -60_000)]
    assert table.expired(1, 0) == []
    gone = table.expired(1, 2)
    table.apply(gone, [None] * 2, created=[], removed=2, position=at(12), marker=None)
    assert [window_start_ms(key) for key in table.expired(1, 100)] == [-1, 0]
    assert (table.rows, table.get_many(gone)) == (5, [None, None])


def test_a_table_without_windows_has_nothing_to_expire() -> None:
    table = TableStore(MemoryStore(), windowed=False)
    table.apply([b"a"], [b"1"], created=[b"a"], removed=0, position=at(1), marker=None)
    assert table.expired(2**62, 10) == []


def test_a_scan_shows_rows_only() -> None:
    table = TableStore(MemoryStore(), windowed=True)
    keys = [windowed_key(name, 5) for name in (b"a", b"b", b"c")]
    table.apply(keys, [b"1"] * 3, created=keys, removed=0, position=at(1), marker=marker(1))
    assert [key for key, _ in table.scan()] == keys
    assert [key for key, _ in table.scan(b"b", b"c")] == keys[1:2]
    assert [key for key, _ in table.scan(b"b")] == keys[1:]
    assert [key for key, _ in table.scan(limit=2)] == keys[:2]


def test_a_load_leaves_counting_to_the_end(tmp_path: Path) -> None:
    table = TableStore(RocksDbStore(tmp_path, RocksDbSettings()), windowed=True)
    keys = [windowed_key(b"%d" % n, n) for n in range(5)]
    table.load(keys, [b"1"] * 5, position=at(5), marker=marker(0))
    table.load([keys[0]], [None], position=at(6), marker=None)
    table.close()
    table = TableStore(RocksDbStore(tmp_path, RocksDbSettings()), windowed=True)
    assert not table.counted
    assert (table.rows, table.marker, table.expired(9, 9)) == (4, marker(0), keys[1:])
    table.end_load()
    assert table.rows == 4
    table.close()
    table = TableStore(RocksDbStore(tmp_path, RocksDbSettings()), windowed=True)
    assert table.counted
    assert table.stats().rows == 4
    assert table.stats().bytes > 0
    table.close()


def test_rows_that_nobody_counts_are_counted_when_asked_for(tmp_path: Path) -> None:
    table = TableStore(RocksDbStore(tmp_path, RocksDbSettings()), windowed=False)
    table.apply([b"a"], [b"1"], created=[b"a"], removed=0, position=at(1), marker=marker(1))
    table.replay([], [], position=at(2), marker=None, count=False)
    table.replay([b"b"], [b"1"], position=at(3), marker=None)
    table.replay([b"a", b"b", b"c"], [b"2", None, b"2"], position=at(4), marker=None, count=False)
    table.replay([b"d"], [b"2"], position=at(5), marker=None)
    table.close()
    table = TableStore(RocksDbStore(tmp_path, RocksDbSettings()), windowed=False)
    assert table.counted  # it is no unfinished restore
    assert (table.rows, table.stats().rows, table.position) == (3, 3, at(5))
    table.close()


@pytest.mark.parametrize("segmented", [True, False])
@pytest.mark.parametrize("count", [True, False])
def test_a_key_that_was_replayed_and_has_left_is_not_expired_again(
    count: bool, segmented: bool
) -> None:
    """An index that lists a key twice would expire it once more, and the count would be wrong."""
    table = TableStore(MemoryStore(), windowed=True, segmented=segmented)
    keys = [windowed_key(b"%d" % n, n) for n in range(3)]
    table.apply(keys, [b"1"] * 3, created=keys, removed=0, position=at(1), marker=None)
    table.replay(keys, [b"2"] * 3, position=at(2), marker=None, count=count)
    table.replay(keys[:2], [None, None], position=at(3), marker=None, count=count)
    assert table.count() == 1
    assert table.expired(1 << 40, 10) == keys[2:]


def test_a_wiped_table_is_new() -> None:
    table = TableStore(MemoryStore(), windowed=False)
    table.apply([b"a"], [b"1"], created=[b"a"], removed=0, position=at(1), marker=marker(1))
    table.wipe()
    assert (table.position, table.marker, table.rows, list(table.scan())) == (None, None, 0, [])


@pytest.mark.parametrize("layout", ["1", "2", "9"])
def test_an_older_or_unknown_layout_is_corrupted(layout: str) -> None:
    store = MemoryStore()
    store.write([(b"mlayout", layout.encode())], [])
    with pytest.raises(StoreCorrupted, match=f"layout b'{layout}'"):
        TableStore(store, windowed=False)


@pytest.mark.parametrize("segmented", [True, False])
def test_an_index_of_the_other_kind_is_corrupted_and_rows_alone_are_read(segmented: bool) -> None:
    store, key = MemoryStore(), windowed_key(b"a", 0)
    table = TableStore(store, windowed=True, segmented=segmented)
    table.apply([key], [b"1"], created=[key], removed=0, position=at(1), marker=None)
    assert TableStore(store, windowed=True, segmented=segmented).position == at(1)
    with pytest.raises(StoreCorrupted, match="layout"):
        TableStore(store, windowed=True, segmented=not segmented)
    assert list(TableStore(store, windowed=False).scan()) == [(key, b"1")]


def test_a_damaged_position_is_corrupted() -> None:
    store = MemoryStore()
    store.write([(b"mposition", b"{")], [])
    with pytest.raises(StoreCorrupted, match="position of 1 bytes"):
        TableStore(store, windowed=False)


def test_the_settings_choose_the_backend(volume: Volume) -> None:
    memory = open_table_store(StateSettings(backend="memory"), None, "app", "q", 0, windowed=False)
    rocksdb = open_table_store(StateSettings(), volume, "app", "q", 0, windowed=False)
    assert (memory.durable, rocksdb.durable) == (False, True)
    rocksdb.close()
    assert volume.stores() == [("app", "q", 0)]
    with pytest.raises(InvalidConfig, match="'redis'"):
        open_table_store(StateSettings(backend="redis"), volume, "app", "q", 0, windowed=False)
    with pytest.raises(InvalidConfig, match="needs a volume"):
        open_table_store(StateSettings(), None, "app", "q", 0, windowed=False)


def test_an_unreadable_store_is_replaced_by_an_empty_one(
    volume: Volume, caplog: pytest.LogCaptureFixture
) -> None:
    for damage in ("CURRENT", "layout"):
        store = open_table_store(StateSettings(), volume, "app", "q", 0, windowed=False)
        store.apply([b"a"], [b"1"], created=[b"a"], removed=0, position=at(1), marker=None)
        if damage == "layout":
            store._store.write([(b"mlayout", b"99")], [])
        store.close()
        if damage == "CURRENT":
            (volume.store_path("app", "q", 0) / "CURRENT").write_text("nonsense")
        caplog.clear()
        store = open_table_store(StateSettings(), volume, "app", "q", 0, windowed=False)
        assert store.position is None
        assert "Removing a store" in caplog.text
        store.close()


def test_a_survey_tells_positions_of_stores_open_or_not(volume: Volume) -> None:
    held = {}
    for name, p, offset in (("q", 0, 5), ("q", 1, 7), ("r", 0, 9)):
        held[name, p] = open_table_store(StateSettings(), volume, "app", name, p, windowed=False)
        held[name, p].apply([], [], created=[], removed=0, position=at(offset), marker=None)
    other = open_table_store(StateSettings(), volume, "other", "q", 0, windowed=False)
    new = open_table_store(StateSettings(), volume, "app", "new", 0, windowed=False)
    (volume.store_path("app", "broken", 0)).mkdir(parents=True)
    held["q", 1].close()
    assert survey_positions(volume, "app") == {("q", 0): 5, ("q", 1): 7, ("r", 0): 9}
    assert survey_positions(volume, "app", {("q", 0), ("r", 0)}) == {("q", 1): 7}
    for store in (*held.values(), other, new):
        store.close()
