"""Opens stores by the settings; the only module that knows the backends."""

from __future__ import annotations

import logging
from collections.abc import Container
from pathlib import Path
from typing import Protocol

from holdfast.config.settings import RocksDbSettings, StateSettings
from holdfast.errors import InvalidConfig, StoreCorrupted
from holdfast.state.memory import MemoryStore
from holdfast.state.remote.opening import RemoteStores, open_remote
from holdfast.state.rocksdb import RocksDbStore, peek
from holdfast.state.store import KeyValueStore
from holdfast.state.table_store import (
    POSITION_KEY,
    StorePosition,
    TableStore,
    read_position,
    store_name,
)
from holdfast.state.volume import Volume

__all__ = [
    "StorePlace",
    "copied_position",
    "open_copy",
    "open_table_store",
    "place_of_stores",
    "survey_positions",
]

_LOG = logging.getLogger(__name__)


def open_table_store(  # noqa: PLR0913 - a store's settings, place, name and layout, and what for
    settings: StateSettings,
    volume: Volume | None,
    application_id: str,
    query_id: str,
    state_partition: int,
    *,
    windowed: bool,
    segmented: bool = False,
    warms: bool = False,
) -> TableStore:
    """Opens the store of one state partition, creating an empty one if there is none.

    A store that cannot be read, or that holds another store's rows, is removed: the changelog has
    all rows that it should have.

    Args:
        volume: holds the files of the rocksdb backend; may be None for others.
        warms: only to fill it; a store that others can reach is not taken from an owner.

    Raises:
        Fenced: it shall be warmed, and has an owner.
        StoreLocked: another process or handle has the store open.
        VolumeFull: no space to open the store.
        StoreUnavailable: the database of a remote store does not answer.
        InvalidConfig: unknown backend, or no volume or database for it.
    """
    where = application_id, query_id, state_partition
    name = store_name(*where)

    def opened() -> TableStore:
        store = _backend(settings, volume, where, warms=warms)
        try:
            return TableStore(store, windowed=windowed, segmented=segmented, name=name)
        except BaseException:
            store.close()
            raise

    try:
        return opened()
    except StoreCorrupted as error:
        if volume is None:
            raise
        _LOG.error("Removing a store, to be restored from its changelog: %s", error)
        place = place_of_stores(settings, volume, application_id)
        place.delete_store(*where)
        return opened()


class StorePlace(Protocol):
    """Where several stores lie: a volume, or a database."""

    def stores(self) -> list[tuple[str, str, int]]:
        """(application id, state name, state partition) of every store there, sorted."""

    def delete_store(self, application_id: str, state_name: str, state_partition: int, /) -> None:
        """Removes a store; does nothing if it is missing."""


def place_of_stores(settings: StateSettings, volume: Volume, application_id: str) -> StorePlace:
    """Where the stores of a job lie that outlive a process."""
    remote = settings.backend == "remote"
    return RemoteStores(settings.remote, application_id) if remote else volume


def survey_positions(
    volume: Volume, application_id: str, known: Container[tuple[str, int]] = ()
) -> dict[tuple[str, int], int]:
    """The changelog offset of each store of an application, without opening the stores.

    Omits stores that are empty, cannot be read or hold another store's rows.

    Args:
        known: stores to leave out: reading one replays its log, which takes a tenth of a second.

    Returns:
        Next offset to replay, by (query id, state partition).
    """
    found = {}
    for application, query_id, partition in volume.stores():
        if application != application_id or (query_id, partition) in known:
            continue
        path = volume.store_path(application, query_id, partition)
        try:
            position = read_position(peek(path, POSITION_KEY, RocksDbSettings()))
        except StoreCorrupted as error:
            _LOG.warning("The survey omits a store: %s", error)
            continue
        name = store_name(application, query_id, partition)
        if position is not None and position.store in ("", name):
            found[(query_id, partition)] = position.offset
    return found


def open_copy(folder: Path, *, windowed: bool, segmented: bool = False) -> TableStore:
    """Opens a copy that a store made of itself, wherever it is; see `TableStore`.

    Raises:
        StoreCorrupted: its files cannot be read.
    """
    store = RocksDbStore(folder, RocksDbSettings())
    try:
        return TableStore(store, windowed=windowed, segmented=segmented)
    except BaseException:
        store.close()
        raise


def copied_position(folder: Path) -> StorePosition:
    """The position of a copy that a store made of itself.

    Raises:
        StoreCorrupted: it has none.
    """
    position = read_position(peek(folder, POSITION_KEY, RocksDbSettings()))
    if position is None:
        raise StoreCorrupted(f"The copy of a store at {folder} has no position.", action="none.")
    return position


def _backend(
    settings: StateSettings,
    volume: Volume | None,
    place: tuple[str, str, int],
    *,
    warms: bool,
) -> KeyValueStore:
    if settings.backend == "memory":
        return MemoryStore()
    if settings.backend == "remote":
        return open_remote(settings.remote, store_name(*place), warms=warms)
    if settings.backend != "rocksdb":
        raise InvalidConfig(
            f"Unknown state backend {settings.backend!r}.",
            action="use rocksdb, memory or remote.",
        )
    if volume is None:
        raise InvalidConfig(
            "The rocksdb backend needs a volume.",
            action="set state.dir, or use the memory backend.",
        )
    return RocksDbStore(volume.store_path(*place), settings.rocksdb)
