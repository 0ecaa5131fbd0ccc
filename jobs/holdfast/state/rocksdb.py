"""The RocksDB backend, and the translation of RocksDB's errors.

All stores of a process share one block cache and one write-buffer manager, so that memory does not
grow with the number of state partitions of an executor.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice, starmap
from pathlib import Path
from typing import cast
from weakref import WeakSet

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from holdfast.config.settings import RocksDbSettings
from holdfast.errors import (
    HoldfastError,
    InvalidConfig,
    Refused,
    StoreCorrupted,
    StoreLocked,
    VolumeFull,
)
from holdfast.state.store import Found

__all__ = ["RocksDbStore", "peek", "read_only"]

_LOG = logging.getLogger(__name__)

_COMPRESSIONS: dict[str, Callable[[], DBCompressionType]] = {
    "none": DBCompressionType.none,
    "snappy": DBCompressionType.snappy,
    "lz4": DBCompressionType.lz4,
    "zstd": DBCompressionType.zstd,
}
_OPEN_FILES_MAX = 256  # per store
_LOG_BYTES_MAX = 4 << 20
_METADATA_BLOCK_BYTES = 4 << 10  # of a part of a filter or an index
# During bulk loads: a memtable that fits the CPU cache takes a third less time to write.
_BULK_MEMTABLE_BYTES = 4 << 20
_MEMTABLE_BYTES_MIN = 64 << 10  # RocksDB's own minimum
# The share of a memtable, 16 bits per key: lookups of missing keys are a fifth faster.
_MEMTABLE_FILTER = 0.02
_BORROWED = "borrowed"  # what rocksdict says of a database that another thread is using
_READS_END_S, _READS_POLL_S = 30.0, 0.001
_sharing = threading.Lock()
_owners: defaultdict[RocksDbSettings, WeakSet[RocksDbStore]] = defaultdict(WeakSet)


class RocksDbStore:
    """Owns one RocksDB folder; a second open, in this or another process, raises `StoreLocked`.

    Every batch except a bulk load goes through the write-ahead log, unsynced: it survives a killed
    process.  After a power loss the log may end earlier, but always between two batches.
    """

    durable = True

    def __init__(self, path: Path, settings: RocksDbSettings) -> None:
        """Opens the folder, creating it if it is missing.

        Raises:
            StoreLocked: another handle holds the store.
            StoreCorrupted: the store's files cannot be read.
            VolumeFull: no space to open the store.
            InvalidConfig: unknown compression.
        """
        self._path = path
        self._settings = settings
        self._db: Rdict | None = None
        self._open()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with _border(self._path):
            return cast("list[bytes | None]", self._living().get(list(keys)))

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Sequence[bytes]) -> None:
        batch = WriteBatch(raw_mode=True)
        for key in deletes:
            batch.delete(key)
        deque(starmap(batch.put, puts), maxlen=0)  # a loop in C
        with _border(self._path):
            self._living().write(batch)

    def begin_bulk(self) -> None:
        # Without the write-ahead log a kill loses the memtable.
        self._write_by(_BULK_MEMTABLE_BYTES, logged=False)

    def end_bulk(self) -> None:
        with _border(self._path):
            self._living().flush(wait=True)
        self._write_by(self._settings.memtable_bytes, logged=True)

    def _write_by(self, memtable_bytes: int, *, logged: bool) -> None:
        memtable = min(memtable_bytes, _memtable_bytes(self._settings))
        options = WriteOptions()
        # The stubs declare a method instead of a property, and below one without its argument.
        options.disable_wal = not logged  # type: ignore[method-assign, assignment]
        with _border(self._path):
            db = self._living()
            db.set_options({"write_buffer_size": str(memtable)})
            db.set_write_options(options)

    def scan(
        self, start: bytes, end: bytes | None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        options = ReadOptions()
        if end is not None:
            options.set_iterate_upper_bound(end)
        with _border(self._path):
            items = self._living().items(from_key=start or None, read_opt=options)
            yield from cast("Iterator[tuple[bytes, bytes]]", islice(items, limit))

    def count(self, start: bytes, end: bytes) -> int:
        options = ReadOptions()
        options.set_iterate_upper_bound(end)
        options.fill_cache(False)  # type: ignore[call-arg]  # a scan reads every row once
        with _border(self._path):
            return sum(1 for _ in self._living().keys(from_key=start, read_opt=options))

    def scan_many(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[bytes, bytes]]]:
        # One iterator for all ranges: creating one costs more than moving it.
        with _border(self._path):
            return _in_ranges(self._living().iter(), ranges)

    def scan_apart(self, starts: Sequence[bytes], ends: Sequence[bytes]) -> Found:
        with _border(self._path):
            return _in_ranges_apart(self._living().iter(), starts, ends)

    def copy_to(self, folder: Path) -> None:
        # Flushes the memtable first, so that the copy needs no write-ahead log.
        with _border(self._path):
            Checkpoint(self._living()).create_checkpoint(str(folder))

    def bytes_on_disk(self) -> int:
        total = 0
        for file in self._path.iterdir():
            try:
                total += file.stat().st_size
            except FileNotFoundError:  # RocksDB has removed a file meanwhile
                continue
        return total

    def wipe(self) -> None:
        self.close()
        with _border(self._path):
            shutil.rmtree(self._path)
        self._open()

    def close(self) -> None:
        db, self._db = self._db, None
        with _sharing:
            _owners[self._settings].discard(self)
        if db is not None:
            _close(db, self._path)

    def _open(self) -> None:
        with _border(self._path):
            self._path.mkdir(parents=True, exist_ok=True)
            self._db = _rdict(self._path, self._settings, AccessType.read_write())
        with _sharing:
            _owners[self._settings].add(self)

    def _living(self) -> Rdict:
        if self._db is None:
            raise _closed(self._path)
        return self._db


def _close(db: Rdict, path: Path) -> None:
    """Closes a database as soon as the reads of other threads have ended; new ones find it closed.

    rocksdict refuses to close a database that is being read.  It would then stay open, and locked,
    for as long as anything refers to it, a logged error among others.

    A flush that fails, on a full volume, is told and is no error: the store has what its position
    says, and an error here would hide the one that tells what to do.
    """
    deadline = time.monotonic() + _READS_END_S
    while True:
        try:
            return db.close()
        except Exception as error:
            if _BORROWED not in str(error):
                return _LOG.warning("The store at %s was closed without a flush: %s", path, error)
            if time.monotonic() > deadline:
                raise StoreLocked(
                    f"The store at {path} is still being read after {_READS_END_S:.0f} s.",
                    action="wait for the reads to end; until then it cannot be opened again.",
                ) from error
        time.sleep(_READS_POLL_S)


def _in_ranges(
    place: RdictIter, ranges: Sequence[tuple[bytes, bytes]]
) -> list[list[tuple[bytes, bytes]]]:
    """The pairs in each range; seeks only if the iterator is not at the right place already."""
    found = []
    passed: bytes | None = None  # the iterator is at the first key after this one
    key: bytes | None = None  # that key, None after the last one
    for start, end in ranges:
        if passed is None or start <= passed or (key is not None and key < start):
            place.seek(start)
            passed, key = start, cast("bytes | None", place.key())
        rows = []
        while key is not None and key < end:
            rows.append((key, cast("bytes", place.value())))
            place.next()
            passed, key = key, cast("bytes | None", place.key())
        if key is None:
            place.status()
        found.append(rows)
    return found


def _in_ranges_apart(place: RdictIter, starts: Sequence[bytes], ends: Sequence[bytes]) -> Found:
    """The pairs in all ranges; jumps from one existing key to the next and skips empty ranges."""
    numbers: list[int] = []
    keys: list[bytes] = []
    values: list[bytes] = []
    at = 0
    key: bytes | None = None  # the iterator's place
    while at < len(starts):
        if key is None or key < starts[at]:
            place.seek(starts[at])
        else:
            numbers.append(at)
            keys.append(key)
            values.append(cast("bytes", place.value()))
            place.next()
        key = cast("bytes | None", place.key())
        if key is None:
            place.status()
            break
        if ends[at] <= key:
            at = bisect_right(ends, key, at + 1)
    return numbers, keys, values


def peek(path: Path, key: bytes, settings: RocksDbSettings) -> bytes | None:
    """Reads one current value of a store that may be open elsewhere; takes no lock.

    Raises:
        StoreCorrupted: there is no readable store.
    """
    with read_only(path, settings) as store:
        return store.get_many([key])[0]


@contextmanager
def read_only(path: Path, settings: RocksDbSettings) -> Iterator[RocksDbStore]:
    """A snapshot of a store that may be open elsewhere; takes no lock.

    Raises:
        StoreCorrupted: there is no readable store.
    """
    store = _ReadOnly(path, settings)
    try:
        yield store
    finally:
        store.close()


class _ReadOnly(RocksDbStore):
    """A store opened without a lock; every write fails."""

    def _open(self) -> None:
        access = AccessType.read_only(error_if_log_file_exist=False)
        with _border(self._path):
            self._db = _rdict(self._path, self._settings, access)


def _rdict(path: Path, settings: RocksDbSettings, access: AccessType) -> Rdict:
    options = _options(settings)
    # The column family is named because an existing one is otherwise opened with the options in its
    # folder, which have neither the shared cache nor the bloom filter.
    families = {"default": options}
    return Rdict(str(path), options, column_families=families, access_type=access)


@cache
def _shared_cache(settings: RocksDbSettings) -> Cache:
    return Cache(settings.block_cache_bytes)


@cache
def _shared_write_buffers(settings: RocksDbSettings) -> WriteBufferManager:
    # Without stalls: a full budget flushes memtables early but never blocks a commit.
    return WriteBufferManager(settings.write_buffer_bytes, allow_stall=False)


def _memtable_bytes(settings: RocksDbSettings) -> int:
    """The size of a memtable: as configured, or the store's share of the budget if that is less.

    With its first row a memtable takes an eighth of its size, 1 MB at most.  If that exceeded the
    budget of all memtables, RocksDB would flush at every write.
    """
    with _sharing:
        share = settings.write_buffer_bytes // max(1, len(_owners[settings]))
    return min(settings.memtable_bytes, max(share, _MEMTABLE_BYTES_MIN))


def _options(settings: RocksDbSettings) -> Options:
    if settings.compression not in _COMPRESSIONS:
        raise InvalidConfig(
            f"Unknown RocksDB compression {settings.compression!r}.",
            action=f"use one of {', '.join(_COMPRESSIONS)}.",
        )
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    with _sharing:  # stores are opened in parallel
        options.set_block_based_table_factory(_table_options(settings))
        options.set_write_buffer_manager(_shared_write_buffers(settings))
    options.set_write_buffer_size(_memtable_bytes(settings))
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(_MEMTABLE_FILTER)
    options.set_compression_type(_COMPRESSIONS[settings.compression]())
    options.set_max_background_jobs(settings.background_jobs)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_open_files(_OPEN_FILES_MAX)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_LOG_BYTES_MAX)
    return options


def _table_options(settings: RocksDbSettings) -> BlockBasedOptions:
    table = BlockBasedOptions()
    table.set_block_cache(_shared_cache(settings))
    table.set_block_size(settings.block_bytes)
    # Within the cache, so that the cache's limit covers them.
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    # A filter in one block is larger than a shard of the cache from two million rows in a file on,
    # and is then read again for every key (ADR 64).
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(_METADATA_BLOCK_BYTES)
    table.set_pin_top_level_index_and_filter(True)
    if settings.bloom_bits_per_key > 0:
        table.set_bloom_filter(settings.bloom_bits_per_key, block_based=False)
    return table


@contextmanager
def _border(path: Path) -> Iterator[None]:
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        raise translate(str(error), path) from error


def translate(text: str, path: Path) -> HoldfastError:
    """The Holdfast error for RocksDB's message; RocksDB gives no codes, only texts."""
    told = text.lower()
    if "already closed" in told or _BORROWED in told:  # by another thread, just now
        return _closed(path)
    if "lock hold by current process" in told or "while lock file" in told:
        return StoreLocked(
            f"The store at {path} is held by another process or handle ({text}).",
            cause="an executor that is being replaced has not ended yet.",
            action="wait; the lock ends with the process that holds it.",
        )
    if "no space left" in told or "disk quota exceeded" in told or "file too large" in told:
        return VolumeFull(
            f"The volume of the store at {path} is full ({text}).",
            action="enlarge the volume or remove unused stores; no commit is lost.",
        )
    if "corruption" in told or "no such file" in told or "checksum" in told:
        return StoreCorrupted(
            f"The store at {path} cannot be read ({text}).",
            cause="files were damaged, removed or written by something else.",
            action="wipe it; it is restored from the changelog.",
        )
    return Refused(
        f"RocksDB failed at {path}: {text}.",
        action="check permissions, open-file limits and the health of the volume.",
    )


def _closed(path: Path) -> StoreLocked:
    return StoreLocked(f"The store at {path} is closed.", action="reopen the state partition.")
