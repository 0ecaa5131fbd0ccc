"""Standbys: stores that follow the changelogs of state partitions that other executors own.

A standby's store has the format of an owner's and is restored again and again, only from committed
records.  If its executor becomes the owner, there is little left to restore.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from holdfast.errors import HoldfastError
from holdfast.state.restore import READ_AHEAD, RestoreProgress
from holdfast.state.table_store import TableStore
from holdfast.state.volume import Volume
from holdfast.tasks.plan import QueryPlan, StandbyState
from holdfast.tasks.replay import open_store, replay, tombstones_kept_ms
from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.reader import PartitionReader

__all__ = ["Standbys"]

_LOG = logging.getLogger(__name__)
_PAUSE_S = 0.5  # between two rounds in which all standbys were level
_AGAIN_S = 5.0  # after an error
_KEPT_S = 60.0  # how long a topic's delete.retention.ms is believed
# A store that says for too long nothing of being level is taken for one that was away.
_SAY_LEVEL_S = 300.0


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
    again_at: float = 0.0
    kept_ms: int = 0
    kept_asked: float = float("-inf")

    def close(self) -> None:
        """Waits until its store is not in use, and closes it."""
        self.left = True
        with self.lock:
            store, self.store = self.store, None
            if store is not None:
                store.close()


class Standbys:
    """Owns the standbys of this process and the thread that restores them.

    Thread-safe.  The thread starts with the first standby and ends with the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._standbys: dict[tuple[str, int], _Standby] = {}
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._reader: PartitionReader | None = None

    def keep(self, wanted: Mapping[tuple[str, int], QueryPlan], volume: Volume) -> None:
        """Follows these state partitions, by (query id, state partition), and no others."""
        for key in [k for k in self._standbys if k not in wanted]:
            self.leave(*key)
        with self._lock:
            for (query_id, partition), plan in wanted.items():
                known = self._standbys.get((query_id, partition))
                if known is None:
                    state = StandbyState(query_id, partition)
                    known = _Standby(plan, partition, volume, state)
                    self._standbys[query_id, partition] = known
                known.plan = plan
            if self._standbys and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="standbys", daemon=True)
                self._thread.start()
        self._wanted.set()

    def leave(self, query_id: str, partition: int) -> None:
        """Gives a standby up and closes its store, so that a state task can open it."""
        with self._lock:
            standby = self._standbys.pop((query_id, partition), None)
        if standby is not None:
            standby.close()

    def states(self) -> tuple[StandbyState, ...]:
        """All standbys, sorted by query id and state partition."""
        with self._lock:
            return tuple(s.state for _, s in sorted(self._standbys.items()))

    def _run(self) -> None:
        while True:
            with self._lock:
                standbys = list(self._standbys.values())
            behind = [s for s in standbys if self._turn(s)]
            if not behind:
                self._wanted.wait(_PAUSE_S if standbys else None)
                self._wanted.clear()

    def _turn(self, standby: _Standby) -> bool:
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
            standby.store = open_store(plan, standby.partition, standby.volume)
        store = standby.store

        def told(now: RestoreProgress) -> None:
            standby.state = replace(standby.state, position=now.position)
            if standby.left:
                raise _Left

        if not _is_level(standby, store, reader.bounds()[1]):
            replay(plan, store, reader, _kept_ms(standby), told)
            standby.level_at = time.monotonic()
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
        name = f"{standby.state.query_id} state partition {standby.partition}"
        _LOG.warning("The standby of %s cannot follow: %s", name, error)
    standby.state = replace(standby.state, error=fact)
    standby.again_at = time.monotonic() + _AGAIN_S
    store, standby.store = standby.store, None
    if store is not None:
        with suppress(HoldfastError):
            store.close()
