from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rocksdict import BlockBasedIndexType, BlockBasedOptions

from holdfast.config.settings import RocksDbSettings
from holdfast.errors import (
    HoldfastError,
    InvalidConfig,
    Refused,
    StoreCorrupted,
    StoreLocked,
    VolumeFull,
)
from holdfast.state import rocksdb
from holdfast.state.rocksdb import RocksDbStore, _shared_cache, _table_options, peek, translate

SETTINGS = RocksDbSettings()
WRITER = """
import sys
from pathlib import Path
from holdfast.config.settings import RocksDbSettings
from holdfast.state.rocksdb import RocksDbStore

store = RocksDbStore(Path(sys.argv[1]), RocksDbSettings())
n = 0
while True:
    store.write([(b"left", b"%d" % n), (b"right", b"%d" % n)], [])
    n += 1
    if n % 100 == 0:
        print(n, flush=True)
"""


BULK_WRITER = """
import os, sys
from pathlib import Path
from holdfast.config.settings import RocksDbSettings
from holdfast.state.rocksdb import RocksDbStore

store = RocksDbStore(Path(sys.argv[1]), RocksDbSettings())
store.write([(b"before", b"1")], [])
store.begin_bulk()
for n in range(3000):
    store.write([(b"left", b"%d" % n), (b"right", b"%d" % n), (b"%05d" % n, os.urandom(5000))], [])
if sys.argv[2] == "ended":
    store.end_bulk()
    store.write([(b"after", b"1")], [])
print("done", flush=True)
sys.stdin.read()
"""


def test_a_second_handle_is_told_that_the_store_is_locked(tmp_path: Path) -> None:
    store = RocksDbStore(tmp_path / "s", SETTINGS)
    with pytest.raises(StoreLocked, match="s is held by another process or handle"):
        RocksDbStore(tmp_path / "s", SETTINGS)
    store.close()
    RocksDbStore(tmp_path / "s", SETTINGS).close()


def test_many_stores_of_one_process_keep_few_rows_in_memory(tmp_path: Path) -> None:
    few = RocksDbSettings(write_buffer_bytes=4 << 20)
    stores = [RocksDbStore(tmp_path / str(n), few) for n in range(32)]
    for n in range(20):
        for store in stores:
            store.write([(b"%d" % n, b"row")], [])
    written = [path.name for path in tmp_path.glob("*/*.sst")]
    for store in stores:
        store.close()
    assert written == [], "each first row took so much of the budget that every write was flushed"


def test_a_store_alone_has_the_memtable_that_is_configured(tmp_path: Path) -> None:
    settings = RocksDbSettings(memtable_bytes=3 << 20)
    for _ in range(40):
        RocksDbStore(tmp_path / "before", settings).close()
    store = RocksDbStore(tmp_path / "alone", settings)
    options = max((tmp_path / "alone").glob("OPTIONS-*")).read_text()
    store.close()
    assert "write_buffer_size=3145728\n" in options.replace("db_write_buffer_size", "")


def test_another_process_is_told_the_same_until_it_ends(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "s")], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer:
        writer.stdout.readline()
        with pytest.raises(StoreLocked):
            RocksDbStore(tmp_path / "s", SETTINGS)
        writer.kill()
    RocksDbStore(tmp_path / "s", SETTINGS).close()


def test_a_killed_writer_leaves_whole_batches_and_all_it_had_told(tmp_path: Path) -> None:
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "s")], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        with writer:
            told = int(writer.stdout.readline())
            os.kill(writer.pid, signal.SIGKILL)
        assert writer.returncode == -signal.SIGKILL
        store = RocksDbStore(tmp_path / "s", SETTINGS)
        left, right = store.get_many([b"left", b"right"])
        store.close()
        assert left is not None
        assert left == right
        assert int(left) >= told - 1


@pytest.mark.parametrize("ended", ["ended", "not ended"])
def test_a_writer_that_is_killed_in_bulk_leaves_whole_batches_from_the_first_on(
    tmp_path: Path, ended: str
) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", BULK_WRITER, str(tmp_path / "s"), ended]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "done\n"
        writer.kill()
    store = RocksDbStore(tmp_path / "s", SETTINGS)
    before, left, right, after = store.get_many([b"before", b"left", b"right", b"after"])
    rows = store.count(b"0", b"9")
    store.close()
    assert before == b"1"
    assert left is not None  # 15 MB are more than memtables of bulk hold
    assert left == right == b"%d" % (rows - 1)
    assert (rows == 3000) == (after == b"1") == (ended == "ended")


@pytest.mark.parametrize("victim", ["CURRENT", "MANIFEST", ".sst"])
def test_damaged_files_are_called_corrupted(tmp_path: Path, victim: str) -> None:
    store = RocksDbStore(tmp_path, SETTINGS)
    store.write([(b"%05d" % n, os.urandom(50)) for n in range(2000)], [])
    assert store._db is not None
    store._db.flush()
    store.close()
    file = next(f for f in tmp_path.iterdir() if victim in f.name)
    file.write_bytes(b"\x00" * file.stat().st_size)

    def open_and_read() -> None:
        RocksDbStore(tmp_path, SETTINGS).get_many([b"00000"])

    with pytest.raises(StoreCorrupted, match="restored from the changelog"):
        open_and_read()


def test_removed_files_are_called_corrupted(tmp_path: Path) -> None:
    store = RocksDbStore(tmp_path, SETTINGS)
    store.write([(b"a", b"1")], [])
    assert store._db is not None
    store._db.flush()
    store.close()
    next(tmp_path.glob("*.sst")).unlink()
    with pytest.raises(StoreCorrupted):
        RocksDbStore(tmp_path, SETTINGS)


@contextmanager
def _no_file_beyond(size: int) -> Iterator[None]:
    """Writes of this process fail beyond this size, in the middle, as on a full volume."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _written_until_full(store: RocksDbStore) -> int:
    for written in range(1_000):
        try:
            store.write([(b"%05d" % written, os.urandom(1000))], [])
        except VolumeFull:
            return written
    raise AssertionError("the volume is never full")


def test_a_store_on_a_full_volume_closes_and_has_all_it_had_told(tmp_path: Path) -> None:
    """Its close cannot flush; an error of that would take the place of `VolumeFull`."""
    store = RocksDbStore(tmp_path / "it", SETTINGS)
    with _no_file_beyond(64 << 10):
        written = _written_until_full(store)
        store.close()
        with pytest.raises(VolumeFull):
            RocksDbStore(tmp_path / "it", SETTINGS).write([(b"more", os.urandom(100_000))], [])
    store = RocksDbStore(tmp_path / "it", SETTINGS)
    keys = [b"%05d" % n for n in range(written + 1)]
    assert written > 0
    assert [row is not None for row in store.get_many(keys)] == [True] * written + [False]
    store.write([(keys[-1], b"there is space again")], [])
    store.close()


def test_a_store_on_a_full_volume_is_wiped(tmp_path: Path) -> None:
    store = RocksDbStore(tmp_path / "it", SETTINGS)
    with _no_file_beyond(64 << 10), pytest.raises(VolumeFull):
        store.write([(b"large", os.urandom(100_000))], [])
    store.wipe()
    assert store.get_many([b"large"]) == [None]
    store.close()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("IO error: No space left on device: While appending to file: /v/000010.log", VolumeFull),
        ("IO error: Disk quota exceeded: While fsync: /v/7.sst", VolumeFull),
        ("IO error: While lock file: /v/LOCK: Resource temporarily unavailable", StoreLocked),
        ("Corruption: block checksum mismatch: stored = 1, computed = 2", StoreCorrupted),
        ("IO error: No such file or directory: While open a file: /v/9.sst", StoreCorrupted),
        ("IO error: Too many open files: While open a file: /v/9.sst", Refused),
    ],
)
def test_rocksdb_s_texts_become_reactions(text: str, kind: type[HoldfastError]) -> None:
    found = translate(text, Path("/v"))
    assert type(found) is kind
    assert text in found.fact
    assert found.action


def test_the_settings_reach_rocksdb(tmp_path: Path) -> None:
    settings = replace(
        SETTINGS,
        memtable_bytes=3 << 20,
        compression="zstd",
        bloom_bits_per_key=7,
        block_bytes=8 << 10,
        background_jobs=3,
    )
    for _ in range(2):  # made, then opened again
        RocksDbStore(tmp_path, settings).close()
        written = max(tmp_path.glob("OPTIONS-*")).read_text()
        for line in (
            "write_buffer_size=3145728",
            "compression=kZSTD",
            "filter_policy=bloomfilter",
            "block_size=8192",
            "max_background_jobs=3",
        ):
            assert line in written


def test_an_unknown_compression_is_named_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"'lzma'(?s:.*)zstd"):
        RocksDbStore(tmp_path, replace(SETTINGS, compression="lzma"))


def test_all_stores_of_a_process_share_one_memory_budget(tmp_path: Path) -> None:
    budget = replace(SETTINGS, write_buffer_bytes=16 << 20, memtable_bytes=64 << 20)
    stores = [RocksDbStore(tmp_path / str(n), budget) for n in range(4)]
    for n in range(50):
        for store in stores:
            store.write([(b"%d-%d" % (n, k), os.urandom(1000)) for k in range(100)], [])
    # Each store got 5 MB, which a budget of its own would have let it keep in memory.
    deadline = time.monotonic() + 20
    while not any(tmp_path.glob("*/*.sst")):
        assert time.monotonic() < deadline, "20 MB in four memtables and nothing was flushed"
        time.sleep(0.02)
    for store in stores:
        store.close()


def test_a_store_opened_again_reads_through_the_shared_cache(tmp_path: Path) -> None:
    settings = replace(SETTINGS, block_cache_bytes=9 << 20)
    keys = [b"%05d" % n for n in range(20_000)]
    store = RocksDbStore(tmp_path, settings)
    store.write([(key, os.urandom(50)) for key in keys], [])
    assert store._db is not None
    store._db.flush()
    store.close()
    cache = _shared_cache(settings)
    store = RocksDbStore(tmp_path, settings)
    before = cache.get_usage()
    store.get_many(keys)
    assert cache.get_usage() - before > 1 << 20
    store.close()


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system tells no bytes read")
def test_a_filter_that_is_larger_than_the_cache_is_not_read_for_each_key(tmp_path: Path) -> None:
    rows = 500_000
    with closing(RocksDbStore(tmp_path, replace(SETTINGS, block_cache_bytes=1 << 20))) as store:
        store.begin_bulk()
        for start in range(0, rows, 50_000):
            scattered = (n * 7_919 % rows for n in range(start, start + 50_000))
            store.write([(b"%08d" % n, b"x") for n in scattered], [])
        store.end_bulk()
        store._living().compact_range(None, None)  # into one file with one filter
        before = _bytes_read()
        for n in range(7, rows, rows // 200):
            assert store.get_many([b"%08d" % n]) == [b"x"]
        filter_bytes = rows * SETTINGS.bloom_bits_per_key // 8
        assert _bytes_read() - before < 200 * filter_bytes / 10


def _bytes_read() -> int:
    """Bytes that this process has read, from page cache and disk."""
    return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])


def _in_one_block(settings: RocksDbSettings) -> BlockBasedOptions:
    """The options of the versions whose filters and indexes were not in parts."""
    table = _table_options(settings)
    table.set_partition_filters(False)
    table.set_index_type(BlockBasedIndexType.binary_search())
    return table


@pytest.mark.parametrize("older_first", [True, False])
def test_versions_read_each_others_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older_first: bool
) -> None:
    kinds = [_in_one_block, _table_options]
    written: list[bytes] = []
    for number, kind in enumerate([*(kinds if older_first else kinds[::-1]), kinds[0]]):
        monkeypatch.setattr(rocksdb, "_table_options", kind)
        with closing(RocksDbStore(tmp_path, SETTINGS)) as store:
            written += [b"%d-%05d" % (number, n) for n in range(10_000)]
            store.begin_bulk()
            store.write([(key, key) for key in written[-10_000:]], [])
            store.end_bulk()
            assert store.get_many(written) == written
            assert store.get_many([b"%d-none" % n for n in range(1_000)]) == [None] * 1_000


def test_a_peek_sees_an_open_store_and_leaves_it_alone(tmp_path: Path) -> None:
    store = RocksDbStore(tmp_path, SETTINGS)
    store.write([(b"a", b"1")], [])
    assert peek(tmp_path, b"a", SETTINGS) == b"1"
    assert peek(tmp_path, b"b", SETTINGS) is None
    store.write([(b"a", b"2")], [])
    assert peek(tmp_path, b"a", SETTINGS) == b"2"
    store.close()


def test_a_peek_at_nothing_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreCorrupted):
        peek(tmp_path / "nothing", b"a", SETTINGS)


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = RocksDbStore(tmp_path, SETTINGS)
    store.close()
    with pytest.raises(StoreLocked, match="is closed"):
        store.get_many([b"a"])


@pytest.mark.parametrize("text", ["Already mutably borrowed", "DB instance already closed"])
def test_a_store_that_another_thread_closes_says_so_too(text: str) -> None:
    found = translate(text, Path("/v"))
    assert (type(found), found.fact) == (StoreLocked, "The store at /v is closed.")


def test_a_store_closes_while_others_read_and_can_be_opened_again(tmp_path: Path) -> None:
    keys = [b"%04d" % n for n in range(2_000)]
    reads: list[Callable[[RocksDbStore], object]] = [
        lambda store: store.get_many(keys),
        lambda store: store.scan_many([(b"0", b"9")]),
        lambda store: list(store.scan(b"0", b"9")),
    ]
    for _ in range(5):
        store = RocksDbStore(tmp_path, SETTINGS)
        store.write([(key, b"v" * 100) for key in keys], [])
        begun = [threading.Event() for _ in reads]
        with ThreadPoolExecutor(len(reads)) as pool:
            ends = [
                pool.submit(_read_until_closed, partial(read, store), each)
                for read, each in zip(reads, begun, strict=True)
            ]
            assert all(each.wait(30) for each in begun)
            store.close()
            assert {end.result(30) for end in ends} == {f"The store at {tmp_path} is closed."}


def _read_until_closed(read: Callable[[], object], begun: threading.Event) -> str:
    while True:
        try:
            read()
        except StoreLocked as error:
            return error.fact
        begun.set()
