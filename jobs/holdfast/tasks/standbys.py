"""Standbys: stores that follow the changelogs of state partitions that other executors own.

A standby's store has the format of an owner's and is restored again and again, only from committed
records.  If its executor becomes the owner, there is little left to restore.

In a database there is one store of a state partition, and it belongs to its owner: a standby only
warms it as long as there has been none, during a rescale.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace

from holdfast.errors import HoldfastError
from holdfast.state import place_of_stores
from holdfast.state.restore import READ_AHEAD, RestoreProgress
from holdfast.state.table_store import TableStore
from holdfast.state.volume import Volume
from holdfast.tasks.plan import QueryPlan, StandbyState
from holdfast.tasks.replay import from_snapshot, open_store, replay, tombstones_kept_ms
from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.reader import PartitionReader

__all__ = ["Standbys"]

_LOG = logging.getLogger(__name__)
_PAUSE_S = 0.5  # between two rounds in which all standbys were level
_CLEAN_S = 5.0  # between two looks for spare stores, if there is no standby
_AGAIN_S = 5.0  # after an error
# An owner counts its rows before it uses them; a standby that finds out only then that some are too
# many would have to be restored in full.
_COUNT_S = 600.0
_KEPT_S = 60.0  # how long a topic's delete.retention.ms is believed
# A store that says for too long nothing of being level is taken for one that was away.
_SAY_LEVEL_S = 300.0
_Key = tuple[str, int]  # state name, state partition


class _Left(Exception):
    """The standby was given up in the middle of a restore."""


@dataclass
class _Standby:
    """One standby; `lock` is held while its store is in use."""

    plan: QueryPlan
    partition: int
    volume: Volume
    state: StandbyState
    lock: threading.Lock = field(default_factory=threading.Lock)
    left: bool = False
    store: TableStore | None = None
    level_at: float = float("-inf")
    counted_at: float = float("-inf")
    again_at: float = 0.0
    kept_ms: int = 0
    kept_asked: float = float("-inf")

    def take(self) -> TableStore | None:
        """Its open store, as soon as that is not in use; the standby never opens one again."""
        self.left = True
        with self.lock:
            store, self.store = self.store, None
            return store


@dataclass(frozen=True)
class _Spare:
    """A store that nobody wants since `since` (monotonic s)."""

    plan: QueryPlan
    volume: Volume
    since: float


class Standbys:
    """Owns the standbys of this process and the thread that restores them.

    Thread-safe.  The thread starts with the first store to look after, and ends with the process.

    Args:
        threaded: without a thread, `turn` does its work.
    """

    def __init__(self, *, threaded: bool = True) -> None:
        self._lock = threading.Lock()
        self._standbys: dict[_Key, _Standby] = {}
        self._spare: dict[_Key, _Spare] = {}
        self._wanted = threading.Event()
        self._threaded = threaded
        self._thread: threading.Thread | None = None
        self._reader: PartitionReader | None = None

    def keep(
        self,
        wanted: Mapping[_Key, QueryPlan],
        spare: Mapping[_Key, QueryPlan],
        volume: Volume,
        owned: AbstractSet[_Key] = frozenset(),
    ) -> None:
        """Follows the wanted state partitions and no others.

        Args:
            spare: stores on the volume that nobody wants; `state.cleanup.delay.ms` later they are
                deleted, unless they are wanted or opened by then.
            owned: what this executor owns; a standby of it goes on until a state task takes it.
        """
        self._leave([k for k in self._standbys if k not in wanted and k not in owned])
        with self._lock:
            for key, plan in wanted.items():
                known = self._standbys.get(key)
                if known is None:
                    known = _Standby(plan, key[1], volume, StandbyState(*key))
                    self._standbys[key] = known
                known.plan = plan
            now = time.monotonic()
            since = {key: one.since for key, one in self._spare.items()}
            self._spare = {k: _Spare(p, volume, since.get(k, now)) for k, p in spare.items()}
            if self._threaded and self._thread is None and (wanted or spare):
                self._thread = threading.Thread(target=self._run, name="standbys", daemon=True)
                self._thread.start()
        self._wanted.set()

    def take(self, state_name: str, partition: int) -> TableStore | None:
        """Gives a store up for a state task, which goes on with it as it is, and closes it.

        Returns:
            The open store; None if the task has to open it: there is none, a restore of it was
            interrupted, or it is in a database, where opening it makes the task its owner.
        """
        with self._lock:
            self._spare.pop((state_name, partition), None)
            standby = self._standbys.pop((state_name, partition), None)
        store = standby.take() if standby is not None else None
        if standby is None or store is None:
            return None
        if standby.plan.settings.state.on_volumes and store.counted:
            return store
        store.close()
        return None

    def _leave(self, keys: Sequence[_Key]) -> None:
        with self._lock:
            left = [s for s in map(self._standbys.get, keys) if s is not None]
        for standby in left:
            standby.left = True  # of all, before one that is in use is waited for
        for key in keys:
            store = self.take(*key)
            if store is not None:
                store.close()

    def states(self) -> tuple[StandbyState, ...]:
        """All standbys, sorted by state name and state partition."""
        with self._lock:
            return tuple(s.state for _, s in sorted(self._standbys.items()))

    def turn(self) -> bool:
        """Restores what every standby lacks; True if one lacks much again by now."""
        with self._lock:
            standbys = list(self._standbys.values())
        behind = [self._follow(s) for s in standbys]
        self._clean()
        return any(behind)

    def _run(self) -> None:
        while True:
            if not self.turn():
                self._wanted.wait(_PAUSE_S if self._standbys else _CLEAN_S)
                self._wanted.clear()

    def _clean(self) -> None:
        """Deletes the stores that were spare for long enough."""
        with self._lock:
            for key, one in list(self._spare.items()):
                settings = one.plan.settings
                if time.monotonic() - one.since >= settings.state.cleanup_delay_ms / 1000:
                    _LOG.info("Deleting the spare store of %s state partition %d", *key)
                    place = place_of_stores(settings.state, one.volume, settings.application_id)
                    with suppress(OSError, HoldfastError):  # tried again when it is named again
                        place.delete_store(settings.application_id, *key)
                    del self._spare[key]

    def _follow(self, standby: _Standby) -> bool:
        """Restores what one standby lacks; True if it lacks much again by now."""
        with standby.lock:
            if standby.left or time.monotonic() < standby.again_at:
                return False
            try:
                self._level(standby)
            except _Left:
                return False
            except HoldfastError as error:
                _failed(standby, error, f"{error.fact} {error.cause}")
            except Exception as error:  # noqa: BLE001 - the thread serves the others, too
                _LOG.exception("A standby failed")
                _failed(standby, error, f"{type(error).__name__}: {error}")
            else:
                standby.state = replace(standby.state, error="")
            acceptable = standby.plan.settings.state.acceptable_recovery_lag
            return not standby.state.error and standby.state.lag > acceptable

    def _level(self, standby: _Standby) -> None:
        plan, reader = standby.plan, self._reader_of(standby)
        if standby.store is None:
            standby.store = open_store(plan, standby.partition, standby.volume, warms=True)
            standby.store, _ = from_snapshot(
                plan, standby.partition, standby.volume, standby.store, _kept_ms(standby),
                lambda _: _go_on(standby),
            )  # fmt: skip
        store = standby.store

        def told(now: RestoreProgress) -> None:
            standby.state = replace(standby.state, position=now.position)
            _go_on(standby)

        if not _is_level(standby, store, reader.bounds()[1]):
            now = time.monotonic()
            counted = now - standby.counted_at > _COUNT_S
            replay(plan, store, reader, _kept_ms(standby), told, counted=counted)
            standby.level_at = time.monotonic()
            standby.counted_at = now if counted else standby.counted_at
        reached = store.position.offset if store.position is not None else 0
        lag = max(0, reader.bounds()[1] - reached)
        standby.state = replace(standby.state, position=reached, lag=lag)

    def _reader_of(self, standby: _Standby) -> PartitionReader:
        """The one reader of all standbys, turned to the changelog of this one."""
        plan = standby.plan
        if self._reader is None:
            client = READ_AHEAD | plan.settings.client()
            self._reader = PartitionReader(client, plan.changelog, standby.partition, exists=True)
        self._reader.turn_to(plan.changelog, standby.partition)
        return self._reader


def _go_on(standby: _Standby) -> None:
    """Ends a restore if the standby was given up meanwhile."""
    if standby.left:
        raise _Left


def _is_level(standby: _Standby, store: TableStore, end: int) -> bool:
    """Whether there is nothing to restore and no need to say so."""
    position, say_s = store.position, min(_SAY_LEVEL_S, standby.kept_ms / 2_000)
    return (
        position is not None
        and store.counted
        and (position.topic_id, position.offset) == (standby.plan.changelog_topic_id, end)
        and time.monotonic() - standby.level_at < say_s
    )


def _kept_ms(standby: _Standby) -> int:
    now = time.monotonic()
    if now - standby.kept_asked > _KEPT_S:
        admin = shared_admin(standby.plan.settings.client())
        standby.kept_ms = tombstones_kept_ms(standby.plan, admin)
        standby.kept_asked = now
    return standby.kept_ms


def _failed(standby: _Standby, error: Exception, fact: str) -> None:
    """Tells an error once, and closes the store: the next try may need to make it anew."""
    if fact != standby.state.error:
        name = f"{standby.state.state_name} state partition {standby.partition}"
        _LOG.warning("The standby of %s cannot follow: %s", name, error)
    standby.state = replace(standby.state, error=fact)
    standby.again_at = time.monotonic() + _AGAIN_S
    standby.counted_at = float("-inf")
    store, standby.store = standby.store, None
    if store is not None:
        with suppress(HoldfastError):
            store.close()
