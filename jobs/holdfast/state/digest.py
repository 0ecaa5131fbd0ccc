"""Digests of stores on volumes and in databases, read while other processes own them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from holdfast.config.settings import RemoteSettings, RocksDbSettings
from holdfast.errors import StoreCorrupted
from holdfast.state.remote.opening import RemoteStores, read_remote
from holdfast.state.rocksdb import read_only
from holdfast.state.store import KeyValueStore
from holdfast.state.table_store import TableStore, store_name
from holdfast.types.stores import StoreDigest

__all__ = ["content", "remote_digests", "store_digests"]

_LOG = logging.getLogger(__name__)
# Small, because a store is read once from end to end while the job needs the memory.
_SETTINGS = RocksDbSettings(block_cache_bytes=8 << 20, write_buffer_bytes=8 << 20)
_BITS = 128
_ATTEMPTS = 3
_UNKNOWN_VOLUME = -1
_Read = Callable[[], AbstractContextManager[KeyValueStore]]


def store_digests(root: Path, application_id: str | None = None) -> list[StoreDigest]:
    """Digests of the readable stores in the volumes under `root`, each a snapshot.

    Reads whole stores.  Takes no lock and writes nothing; omits stores that are empty or whose
    files change too much while they are read.

    Args:
        application_id: only stores of this application; None: all.
    """
    found = []
    for path in sorted(root.glob("*/stores/*/*/*/")):
        volume, _, application, query_id, partition = path.relative_to(root).parts
        if application_id in (None, application) and partition.isdecimal():
            read = partial(read_only, path, _SETTINGS)
            digest = _patiently(read, application, query_id, (int(volume), int(partition)))
            found += [digest] if digest else []
    return found


def remote_digests(settings: RemoteSettings, application_id: str) -> list[StoreDigest]:
    """Digests of the readable stores of an application in a database, each a snapshot.

    Reads whole stores, and takes none from its owner; omits stores that are empty or that change
    too often while they are read.

    Raises:
        StoreUnavailable, InvalidConfig: the database cannot be read.
    """
    found = []
    for application, name, partition in RemoteStores(settings, application_id).stores():
        read = partial(read_remote, settings, store_name(application, name, partition))
        digest = _patiently(read, application, name, (_UNKNOWN_VOLUME, partition))
        found += [digest] if digest else []
    return found


def _patiently(
    read: _Read, application_id: str, query_id: str, place: tuple[int, int]
) -> StoreDigest | None:
    """Reads a store again if its owner changes what is being read."""
    for attempt in range(_ATTEMPTS):
        try:
            return _digest(read, application_id, query_id, place)
        except StoreCorrupted as error:
            if attempt == _ATTEMPTS - 1:
                _LOG.warning("The digests omit a store: %s", error)
    return None


def _digest(
    read: _Read, application_id: str, query_id: str, place: tuple[int, int]
) -> StoreDigest | None:
    with read() as store:
        # A read-only store is a snapshot: position, count and rows belong together.
        table = TableStore(store, windowed=False)
        if table.position is None:
            return None
        rows, digest = content(table)
        offset = table.position.offset
    volume, partition = place
    return StoreDigest(application_id, query_id, partition, rows, offset, digest, volume)


def content(table: TableStore) -> tuple[int, str]:
    """The number of rows, and the digest of rows and element rows; reads them all."""
    rows, total = 0, 0
    for number in _numbers(table.scan()):
        rows, total = rows + 1, total + number
    total += sum(_numbers(table.scan_elements()))
    return rows, f"{total % (1 << _BITS):032x}"


def _numbers(pairs: Iterator[tuple[bytes, bytes]]) -> Iterator[int]:
    for key, row in pairs:
        told = hashlib.sha256(len(key).to_bytes(4, "big") + key + row).digest()
        yield int.from_bytes(told[: _BITS // 8], "big")
