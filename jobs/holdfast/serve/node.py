"""One query server without HTTP: catalog, standbys, peers, and the watcher thread."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import psutil

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError, Refused, VolumeHeld
from holdfast.serve.cluster.internal import Internal
from holdfast.serve.cluster.members import Members, Plan
from holdfast.serve.cluster.peer import PeerSettings
from holdfast.serve.cluster.reader import ClusterReader
from holdfast.serve.contract import PartitionState, Serving
from holdfast.serve.follow.catalog import Script, ScriptCatalog
from holdfast.serve.follow.follower import Follower, Key, Store, Wanted
from holdfast.serve.follow.generations import GenerationsOfJobs
from holdfast.serve.follow.local import LocalReader
from holdfast.serve.follow.log import Log
from holdfast.serve.follow.standby import Standby
from holdfast.serve.tables import StoredTable
from holdfast.state.volume import Volume, claim_ordinal
from holdfast.transport.cluster.admin import Admin

__all__ = ["Node", "opened", "volumes_of"]

_LOG = logging.getLogger(__name__)
_EVERY_S = 1.0
_ENDS_OLD_MS = 2_000  # an end offset older than this is queried
_COUNTING = 0.01  # share of the time that may be spent on counting rows
_CLAIM_S = 30.0  # to wait for a killed process of the same server, and its children, to end
_LOOK_S = 3.0  # to wait before looking who has its volume


def volumes_of(settings: Settings) -> Path:
    """The folder with the servers' volumes."""
    return Path(settings.serve.dir or Path(settings.home, "serve"))


def _claimed(root: Path, number: int) -> Volume:
    """The volume of the server of this number.

    Raises:
        Refused: the folder cannot be used, or another server has the volume.
    """
    try:
        return claim_ordinal(root, number, _LOOK_S)
    except VolumeHeld as error:
        # In a cluster the number is of a process in another pod.
        if "KUBERNETES_SERVICE_HOST" in os.environ or not psutil.pid_exists(error.pid):
            return claim_ordinal(root, number, _CLAIM_S)
        raise Refused(
            f"Query server {number} of this home runs already: process {error.pid} has "
            f"{root / str(number)}.",
            action="ask that one, or end it first; another one of the same tables takes --servers "
            "and --server-id, one of other tables a folder of its own: --set serve.dir=DIR",
        ) from error


class Node:
    """Owns everything below the HTTP server of one query server."""

    def __init__(
        self, scripts: Sequence[Script], settings: Settings, plan: Plan, peers: PeerSettings
    ) -> None:
        """Lock this server's volume in `serve.dir` and read the scripts; sends no request yet.

        Raises:
            InvalidStatement, InvalidConfig: a script is wrong.
            Refused: another server has the volume.
        """
        self.settings = settings
        self.catalog = ScriptCatalog(scripts)
        self.volume = _claimed(volumes_of(settings), plan.me)
        server = str(plan.me)
        self._admin = Admin(settings.client())
        self._generations = GenerationsOfJobs(self._admin, settings.client())
        self.follower = Follower(settings, self.volume, server)
        log = Log(settings.client(), settings.state.delete_retention_ms)
        self.local = LocalReader(self.follower.standby, log, server)
        self.members = Members(plan, peers, self.follower.standbys, self.catalog.expected)
        self.reader = ClusterReader(self.local, self.members)
        self._measured = 0  # number of stores measured, over all rounds
        self._measure_from = 0.0
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)

    @property
    def serving(self) -> Serving:
        """The parts that the HTTP layer needs."""
        return Serving(
            settings=self.settings,
            catalog=self.catalog,
            reader=self.reader,
            cluster=self.members,
            internal=Internal(self.local, self.members),
            started_ms=int(time.time() * 1000),
        )

    def start(self) -> None:
        """Begin to watch scripts and topics, and to follow."""
        self._watcher.start()

    def close(self) -> None:
        """Stop all threads, close the stores and release the volume."""
        self._stop.set()
        if self._watcher.is_alive():
            self._watcher.join()
        self.follower.close()
        self.local.close()
        self.volume.release()

    # -- the watcher's thread ------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                self._round()
            except HoldfastError as error:
                _LOG.warning("Looking at scripts and topics: %s", error)
            except Exception:  # noqa: BLE001 - the next round may succeed
                _LOG.exception("Looking at scripts and topics failed")
            self._stop.wait(_EVERY_S)

    def _round(self) -> None:
        self.catalog.refresh(self._admin.describe, self._generations.of, self._is_reached)
        self.follower.assign(self._wanted(), self._kept())
        now_ms = int(time.time() * 1000)
        standbys = self.follower.standbys()
        old = {s.table.topic for s in standbys if now_ms - s.checked_ms > _ENDS_OLD_MS}
        for topic in sorted(old):
            self.follower.seen_ends(topic, self._admin.end_offsets(topic))
        self._measure(standbys)

    def _measure(self, standbys: Sequence[Standby]) -> None:
        """Measure the next stores in turn, with a pause in proportion to the time taken."""
        began = time.monotonic()
        if began < self._measure_from:
            return
        for _ in standbys:
            standbys[self._measured % len(standbys)].measure()
            self._measured += 1
            if time.monotonic() - began > _EVERY_S * _COUNTING:
                break
        self._measure_from = began + (time.monotonic() - began) / _COUNTING

    def _wanted(self) -> Mapping[Key, Wanted]:
        return {
            (table.held_as, partition): Wanted(table, partition, self.catalog.topic_id(table.topic))
            for table in self.catalog.stored()
            for partition in range(table.partitions)
            if self._is_mine(table.held_as, partition)
        }

    def _is_reached(self, table: StoredTable) -> bool:
        return self._generations.is_reached(table, partial(self._states, table))

    def _states(self, table: StoredTable, partition: int) -> Iterator[PartitionState | None]:
        mine = self.follower.standby(table.held_as, partition)
        yield mine.state() if mine is not None else None
        for server in self.members.plan.holders(table.held_as, partition):
            if not self.members.is_gone(server):
                yield self.members.state_of(server, table.held_as, partition)

    def _is_mine(self, table: str, partition: int) -> bool:
        return self.members.me in self.members.plan.holders(table, partition)

    def _kept(self) -> Callable[[Store], bool]:
        """Whether to keep a store on disk: its table is served and its partition belongs here.

        Stores of a table whose topic is missing are kept, too: the topic may come back soon.
        """
        tables = self.catalog.stores()

        def kept(store: Store) -> bool:
            table = tables.get(store[:2])
            return table is not None and self._is_mine(table, store[2])

        return kept


@asynccontextmanager
async def opened(
    scripts: Sequence[Script], settings: Settings, plan: Plan, peers: PeerSettings
) -> AsyncGenerator[Node, None]:
    """A running node on this event loop.

    Raises:
        InvalidStatement, InvalidConfig, Refused: see `Node`.
    """
    node = Node(scripts, settings, plan, peers)
    node.start()
    asking = asyncio.create_task(node.members.run())
    try:
        yield node
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await asyncio.to_thread(node.close)
