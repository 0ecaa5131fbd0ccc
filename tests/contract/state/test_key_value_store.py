"""The contract of every backend; `BACKENDS` is the only place that lists them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.config.settings import RocksDbSettings
from holdfast.errors import Refused
from holdfast.state.memory import MemoryStore
from holdfast.state.remote.redis import RedisLink, RedisTable
from holdfast.state.remote.store import RemoteStore
from holdfast.state.rocksdb import RocksDbStore
from holdfast.state.store import KeyValueStore
from tests.simulation.fakes.database import Database
from tests.simulation.fakes.disk import Disk
from tests.support.servers.redis_server import RedisServer

_DISK = Disk(random.Random(0))  # what the simulation has in the place of RocksDB
_DATABASE = Database()  # and of Redis


def _adopted(folder: Path) -> KeyValueStore:
    _DISK.adopt(folder.with_name("adopted"), folder)
    return _DISK.open(folder.with_name("adopted"), None)


_OPENED: dict[str, Callable[[Path], KeyValueStore]] = {
    "rocksdb": lambda folder: RocksDbStore(folder, RocksDbSettings()),
    "fake": _adopted,
}
"""Durable backends, and how each opens a copy."""
Copied = Callable[[], list[tuple[bytes, bytes]]]  # its rows
BACKENDS: dict[str, Callable[[Path], KeyValueStore]] = {
    "memory": lambda _: MemoryStore(),
    "rocksdb": lambda path: RocksDbStore(path / "store", RocksDbSettings()),
    "fake": lambda path: _DISK.open(path, None),
    "redis": lambda path: _in_redis(path, 1 << 40),
    "redis in parts": lambda path: _in_redis(path, 7_000),
    "fake database": lambda path: RemoteStore(_DATABASE.table(str(path), None), str(path)),
}
_REDIS: dict[str, RedisServer] = {}  # while the tests run, if there is one


def _in_redis(path: Path, part_rows: int) -> KeyValueStore:
    settings = _REDIS["server"].settings()
    return RemoteStore(RedisTable(RedisLink(settings), f"app/{path}/0", part_rows), str(path))


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        _REDIS["server"] = server
        yield
    _REDIS.clear()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if name.startswith("redis"):
        request.getfixturevalue("redis")
    return name


@pytest.fixture
def store(backend: str, tmp_path: Path) -> Iterator[KeyValueStore]:
    store = BACKENDS[backend](tmp_path)
    yield store
    store.close()


def everything(store: KeyValueStore) -> list[tuple[bytes, bytes]]:
    return list(store.scan(b"", None))


def test_a_new_store_is_empty(store: KeyValueStore) -> None:
    assert store.get_many([b"a", b""]) == [None, None]
    assert everything(store) == []


def test_values_come_back_in_the_order_asked(store: KeyValueStore) -> None:
    store.write([(b"a", b"1"), (b"b", b"2")], [])
    assert store.get_many([b"b", b"x", b"a", b"b"]) == [b"2", None, b"1", b"2"]
    assert store.get_many([]) == []


def test_a_value_may_be_empty_and_is_not_missing(store: KeyValueStore) -> None:
    store.write([(b"a", b"")], [])
    assert store.get_many([b"a"]) == [b""]
    assert everything(store) == [(b"a", b"")]


def test_a_batch_deletes_before_it_puts_and_the_last_put_counts(store: KeyValueStore) -> None:
    store.write([(b"a", b"1"), (b"b", b"1")], [])
    store.write([(b"a", b"2"), (b"a", b"3")], [b"a", b"b", b"never there"])
    assert everything(store) == [(b"a", b"3")]


def test_an_empty_batch_changes_nothing(store: KeyValueStore) -> None:
    store.write([(b"a", b"1")], [])
    store.write([], [])
    assert everything(store) == [(b"a", b"1")]


def test_keys_are_ordered_bytewise(store: KeyValueStore) -> None:
    keys = [b"\xff\xff", b"\x00", b"a", b"ab", b"\xff", b"a\x00", b"\x80"]
    store.write([(key, b"") for key in keys], [])
    assert [key for key, _ in store.scan(b"", None)] == sorted(keys)


@pytest.mark.parametrize(
    ("start", "end", "limit", "expected"),
    [
        (b"", None, None, b"abcde"),
        (b"b", b"d", None, b"bc"),
        (b"bb", b"d\x00", None, b"cd"),
        (b"", b"c", None, b"ab"),
        (b"d", None, None, b"de"),
        (b"b", None, 2, b"bc"),
        (b"b", b"c", 2, b"b"),
        (b"b", None, 0, b""),
        (b"c", b"c", None, b""),
        (b"d", b"b", None, b""),
        (b"f", None, None, b""),
    ],
)
def test_a_scan_takes_its_start_and_leaves_its_end(
    store: KeyValueStore, start: bytes, end: bytes | None, limit: int | None, expected: bytes
) -> None:
    store.write([(b"%c" % c, b"v") for c in b"ecabd"], [])
    assert b"".join(key for key, _ in store.scan(start, end, limit)) == expected
    if end is not None and limit is None:
        assert store.count(start, end) == len(expected)


@pytest.mark.parametrize(
    "ranges",
    [
        [(b"a", b"c"), (b"c", b"d"), (b"d", b"z")],
        [(b"a", b"c"), (b"a", b"c"), (b"b", b"c")],
        [(b"d", b"e"), (b"", b"a"), (b"bb", b"d")],
        [(b"x", b"z"), (b"y", b"z"), (b"a", b"b"), (b"c", b"c")],
    ],
)
def test_many_scans_are_as_each_alone(
    store: KeyValueStore, ranges: list[tuple[bytes, bytes]]
) -> None:
    store.write([(key, key.upper()) for key in (b"a", b"b", b"bb", b"c", b"d")], [])
    assert store.scan_many(ranges) == [list(store.scan(start, end)) for start, end in ranges]
    assert store.scan_many([]) == []


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [(b"a", b"c"), (b"c", b"d"), (b"d", b"z")],
        [(b"", b"a"), (b"aa", b"ab"), (b"b", b"b"), (b"b", b"bc"), (b"c", b"cc"), (b"x", b"z")],
        [(b"0", b"1"), (b"1", b"2"), (b"d", b"da")],
        [(b"dd", b"e"), (b"e", b"f")],
    ],
)
def test_ranges_apart_are_as_each_scan_alone(
    store: KeyValueStore, ranges: list[tuple[bytes, bytes]]
) -> None:
    store.write([(key, key.upper()) for key in (b"a", b"b", b"bb", b"c", b"d")], [])
    found = store.scan_apart([start for start, _ in ranges], [end for _, end in ranges])
    each = [(n, *pair) for n, bounds in enumerate(ranges) for pair in store.scan(*bounds)]
    assert list(zip(*found, strict=True)) == each


def test_deleted_and_rewritten_keys_are_scanned_once(store: KeyValueStore) -> None:
    store.write([(b"a", b"1"), (b"b", b"1")], [])
    assert len(everything(store)) == 2
    store.write([], [b"a"])
    store.write([(b"a", b"2"), (b"c", b"2")], [])
    assert everything(store) == [(b"a", b"2"), (b"b", b"1"), (b"c", b"2")]


def test_writes_do_not_disturb_a_scan(store: KeyValueStore) -> None:
    store.write([(b"k%03d" % n, b"old") for n in range(100)], [])
    running = store.scan(b"", None)
    seen = [next(running)[0]]
    store.write([(b"k%03da" % n, b"new") for n in range(100)], [])
    assert len(everything(store)) == 200
    seen += [key for key, _ in running]
    assert {b"k%03d" % n for n in range(100)} <= set(seen)
    assert seen == sorted(set(seen))


def test_large_values_and_many_keys_are_kept(store: KeyValueStore) -> None:
    large = bytes(range(256)) * 8192
    rows = [(b"%06d" % n, b"%d" % n) for n in range(30_000)]
    store.write([*rows, (b"large", large)], [])
    assert store.get_many([b"large", b"000007", b"029999"]) == [large, b"7", b"29999"]
    assert sum(1 for _ in store.scan(b"", None)) == 30_001


def test_the_size_grows_with_what_is_stored(store: KeyValueStore) -> None:
    before = store.bytes_on_disk()
    store.write([(b"%06d" % n, b"v" * 100) for n in range(10_000)], [])
    assert store.bytes_on_disk() - before > 1_000_000


def test_rows_in_bulk_are_rows_like_others(store: KeyValueStore) -> None:
    store.write([(b"a", b"1"), (b"b", b"1")], [])
    store.begin_bulk()
    store.write([(b"b", b"2"), (b"c", b"2")], [b"a"])
    assert everything(store) == [(b"b", b"2"), (b"c", b"2")]
    store.end_bulk()
    store.write([(b"d", b"3")], [b"c"])
    store.end_bulk()
    assert everything(store) == [(b"b", b"2"), (b"d", b"3")]


def test_a_store_that_is_wiped_in_bulk_is_usable(store: KeyValueStore) -> None:
    store.begin_bulk()
    store.write([(b"a", b"1")], [])
    store.wipe()
    store.write([(b"b", b"2")], [])
    store.end_bulk()
    assert everything(store) == [(b"b", b"2")]


def test_a_wiped_store_is_empty_and_usable(store: KeyValueStore) -> None:
    store.write([(b"a", b"1")], [])
    store.wipe()
    assert everything(store) == []
    store.write([(b"b", b"2")], [])
    assert everything(store) == [(b"b", b"2")]


def test_a_store_may_be_closed_twice(store: KeyValueStore) -> None:
    store.close()
    store.close()


def test_only_a_durable_store_outlives_its_handle(backend: str, tmp_path: Path) -> None:
    store = BACKENDS[backend](tmp_path)
    store.write([(b"a", b"1")], [])
    durable = store.durable
    store.close()
    store = BACKENDS[backend](tmp_path)
    assert store.get_many([b"a"]) == [b"1" if durable else None]
    store.close()


@pytest.fixture
def copied(store: KeyValueStore, backend: str, tmp_path: Path) -> Iterator[Callable[[], Copied]]:
    opened: list[KeyValueStore] = []

    def copy() -> Copied:
        folder = tmp_path / f"copy{len(opened)}"
        store.copy_to(folder)

        def rows() -> list[tuple[bytes, bytes]]:
            opened.append(_OPENED[backend](folder))
            return everything(opened[-1])

        return rows

    yield copy
    for each in opened:
        each.close()


@pytest.mark.parametrize("backend", _OPENED, indirect=True)
def test_a_copy_has_what_the_store_had(store: KeyValueStore, copied: Callable[[], Copied]) -> None:
    store.write([(b"%04d" % n, b"x" * n) for n in range(300)], [])
    store.write([(b"0001", b"new")], [b"0002"])
    before = everything(store)
    rows = copied()
    store.write([(b"later", b"1"), (b"0001", b"later")], [b"0003"])
    assert rows() == before
    assert (b"later", b"1") in everything(store)


@pytest.mark.parametrize("backend", _OPENED, indirect=True)
def test_a_copy_is_a_store_of_its_own(store: KeyValueStore, copied: Callable[[], Copied]) -> None:
    store.write([(b"a", b"1")], [])
    rows = copied()
    store.wipe()
    assert rows() == [(b"a", b"1")]


@pytest.mark.parametrize("backend", _OPENED, indirect=True)
def test_an_empty_store_has_an_empty_copy(copied: Callable[[], Copied]) -> None:
    assert copied()() == []


def test_a_store_in_memory_refuses_to_be_copied(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="memory"):
        MemoryStore().copy_to(tmp_path / "copy")
