"""Keeps this server's standbys caught up: a few threads restore, one follows the restored."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from queue import SimpleQueue

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, Refused, Retriable, StoreCorrupted, VolumeFull
from holdfast.serve.follow.restorer import Cancelled, Restorer
from holdfast.serve.follow.standby import Standby
from holdfast.serve.tables import StoredTable
from holdfast.state import open_table_store
from holdfast.state.table_store import TableStore
from holdfast.state.volume import Volume
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.tail import Tail, TailReader
from holdfast.types.ids import Place

__all__ = ["Follower", "Key", "Store", "Wanted"]

_LOG = logging.getLogger(__name__)
_RECORDS_MAX = 20_000  # per poll
_POLL_S = 0.1
_SOON_S = 1.0
_LATER_S = 10.0
Key = tuple[str, int]  # table name, partition
Store = tuple[str, str, int]  # application id, store name, partition


@dataclass(frozen=True)
class Wanted:
    """A partition that this server should hold, and the current id of its topic."""

    table: StoredTable
    partition: int
    topic_id: str

    @property
    def store(self) -> Store:
        """The partition's store on the volume."""
        return self.table.application_id, self.table.store_name, self.partition


@dataclass
class _Held:
    """A standby and its life cycle; `gone` cancels a running restore."""

    wanted: Wanted
    standby: Standby
    gone: threading.Event = field(default_factory=threading.Event)
    idle: threading.Event = field(default_factory=threading.Event)  # no thread is working on it
    again_at: float = 0.0
    level: bool = False

    @property
    def place(self) -> Place:
        return self.wanted.table.topic, self.wanted.partition


class Follower:
    """Owns the standbys, their stores and the threads; call `assign` from one thread only."""

    def __init__(
        self, settings: Settings, volume: Volume, server: str, *, restores: int = 2
    ) -> None:
        """No store is opened before `assign`.

        Args:
            settings: Kafka's and RocksDB's; the job may keep its own stores in another backend.
            server: this server's id.
            restores: number of concurrent restores.
        """
        self._settings = settings
        self._volume = volume
        self._server = server
        self._restorer = Restorer(settings.client(), settings.state, Admin(settings.client()))
        self._pool = ThreadPoolExecutor(restores, thread_name_prefix="restore")
        self._held: dict[Key, _Held] = {}
        self._commands: SimpleQueue[Callable[[TailReader], None]] = SimpleQueue()
        self._followed: dict[Place, list[_Held]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follow", daemon=True)
        self._thread.start()

    def standby(self, table: str, partition: int) -> Standby | None:
        """The standby of a partition, or None if it is not held here.  Thread-safe."""
        held = self._held.get((table, partition))
        return held.standby if held is not None else None

    def standbys(self) -> list[Standby]:
        """All standbys of this server.  Thread-safe."""
        return [held.standby for held in list(self._held.values())]

    def assign(self, wanted: Mapping[Key, Wanted], kept: Callable[[Store], bool]) -> None:
        """Hold exactly these partitions; new ones are restored.

        Args:
            kept: whether a store that is not held stays on disk; else it is removed.
        """
        for key, held in list(self._held.items()):
            if wanted.get(key) != held.wanted:
                self._drop(key, held)
        for key, want in wanted.items():
            if key not in self._held:
                self._hold(key, want)
        for held in self._held.values():
            if not held.level and held.idle.is_set():
                self._restore_when_due(held)
        self._sweep(kept)

    def seen_ends(self, topic: str, ends: Mapping[int, int]) -> None:
        """Record the current committed end offsets of a topic."""
        for held in list(self._held.values()):
            end = ends.get(held.wanted.partition)
            if held.wanted.table.topic == topic and end is not None:
                held.standby.seen_end(end)

    def close(self) -> None:
        """Stop all threads and close the stores."""
        for held in self._held.values():
            held.gone.set()
        self._stopped.set()
        self._thread.join()
        self._pool.shutdown(cancel_futures=True)
        for held in self._held.values():
            held.standby.stop("the server stops")
            held.standby.store.close()
        self._held.clear()

    # -- holding -------------------------------------------------------------------------------

    def _hold(self, key: Key, want: Wanted) -> None:
        try:
            store = self._open(want)
        except (Retriable, VolumeFull) as error:
            _LOG.warning("%s partition %d cannot be opened yet: %s", *key, error.fact)
            return
        standby = Standby(want.table, want.partition, store, self._server)
        held = _Held(want, standby)
        held.idle.set()
        self._held[key] = held

    def _open(self, want: Wanted) -> TableStore:
        # Only RocksDB lets readers neither wait for a writer nor see half of its write.
        state = replace(self._settings.state, backend="rocksdb")
        # Windows expire by tombstone, so a follower needs no index by time.
        return open_table_store(state, self._volume, *want.store, windowed=False)

    def _drop(self, key: Key, held: _Held) -> None:
        held.gone.set()
        done = threading.Event()

        def leave(reader: TailReader) -> None:
            try:
                self._unfollow(reader, held)
            finally:
                done.set()

        self._commands.put(leave)
        done.wait()
        held.idle.wait()
        del self._held[key]
        held.standby.stop("it is not held here any more")
        held.standby.store.close()

    def _sweep(self, kept: Callable[[Store], bool]) -> None:
        held = {h.wanted.store for h in self._held.values()}
        for store in self._volume.stores():
            if store not in held and not kept(store):
                _LOG.info("Removing the store of %s/%s/%d: it is not held here any more", *store)
                self._volume.delete_store(*store)

    # -- restoring -----------------------------------------------------------------------------

    def _restore_when_due(self, held: _Held) -> None:
        if time.monotonic() >= held.again_at:
            held.idle.clear()
            self._pool.submit(self._restore, held)

    def _restore(self, held: _Held) -> None:
        try:
            self._restorer.level(held.standby, held.wanted.topic_id, self._cancelled(held))
            held.standby.measure()
            held.level = True
            self._commands.put(lambda reader: self._begin(reader, held))
        except Cancelled:
            return
        except HoldfastError as error:
            self._failed(held, error)
        except Exception as error:  # noqa: BLE001 - else the restore would never be retried
            self._failed(held, _unexpected(held, error))
        finally:
            held.idle.set()

    def _cancelled(self, held: _Held) -> Callable[[], bool]:
        return lambda: held.gone.is_set() or self._stopped.is_set()

    def _failed(self, held: _Held, error: HoldfastError) -> None:
        """Schedule a retry: soon where waiting helps, else after a time in which a person may
        act.
        """
        _LOG.warning("%s: %s", held.standby.name, error)
        held.standby.stop(error.fact)
        held.level = False
        soon = isinstance(error, Retriable | StoreCorrupted) and not isinstance(error, VolumeFull)
        held.again_at = time.monotonic() + (_SOON_S if soon else _LATER_S)
        if isinstance(error, StoreCorrupted):
            held.standby.store.wipe()

    # -- following; everything below runs in a single thread -----------------------------------

    def _follow(self) -> None:
        reader = TailReader(self._settings.client())
        try:
            while not self._stopped.is_set():
                try:
                    while not self._commands.empty():
                        self._commands.get()(reader)
                    self._poll(reader)
                except Exception:  # noqa: BLE001 - without this thread all stores would stand still
                    _LOG.exception("Following the changelogs failed")
                    self._stopped.wait(_SOON_S)
        finally:
            reader.close()

    def _poll(self, reader: TailReader) -> None:
        if not self._followed:
            self._stopped.wait(_POLL_S)
            return
        try:
            self._apply(reader, reader.poll(_RECORDS_MAX, _POLL_S))
        except HoldfastError as error:
            _LOG.warning("Following the changelogs: %s", error)
            self._stopped.wait(_SOON_S)

    def _apply(self, reader: TailReader, tail: Tail) -> None:
        for place, chunk in tail.chunks.items():
            self._each(reader, place, partial(Standby.take, chunk=chunk))
        for place, end in tail.ends.items():
            self._each(reader, place, partial(Standby.at_end, end=end))
        for place, error in tail.failed.items():
            for held in self._followed.pop(place, []):
                self._failed(held, error)

    def _each(self, reader: TailReader, place: Place, action: Callable[[Standby], None]) -> None:
        for held in list(self._followed.get(place, ())):
            try:
                action(held.standby)
            except HoldfastError as error:
                self._unfollow(reader, held)
                self._failed(held, error)
            except Exception as error:  # noqa: BLE001 - the records must be read again
                self._unfollow(reader, held)
                self._failed(held, _unexpected(held, error))

    def _begin(self, reader: TailReader, held: _Held) -> None:
        if held.gone.is_set():
            return
        held.standby.begin()
        sharing = self._followed.setdefault(held.place, [])
        sharing.append(held)
        # Tables over one topic may be at different offsets; each skips the records that it has.
        start = min(each.standby.state().position for each in sharing)
        try:
            reader.follow(*held.place, start)
        except HoldfastError as error:
            for each in self._followed.pop(held.place):
                self._failed(each, error)

    def _unfollow(self, reader: TailReader, held: _Held) -> None:
        others = self._followed.get(held.place, [])
        if held in others:
            others.remove(held)
        if not others:
            self._followed.pop(held.place, None)
            reader.leave(*held.place)


def _unexpected(held: _Held, error: Exception) -> HoldfastError:
    _LOG.error("Following %s failed", held.standby.name, exc_info=error)
    return Refused(f"{held.standby.name} cannot be followed: {error!r}.")
