"""Snapshots of the stores of open state tasks, taken and uploaded beside the batches.

A copy of a store is made of hard links, in some hundredths of a second.  Uploading it takes as long
as it takes; meanwhile its store goes on.  Without `snapshot.uri` there are none.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.state import copied_position
from holdfast.state.snapshots.archive import Archive
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.table_store import TableStore, store_name
from holdfast.state.volume import Volume
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.steps import SnapshotStep, reached
from holdfast.types.snapshots import SnapshotState

__all__ = ["Snapshots"]

_LOG = logging.getLogger(__name__)
_AGAIN_S = 60.0  # after an error, if the interval is not shorter
_POLL_S = 1.0
_Key = tuple[str, str, int]  # application id, query id, state partition


@dataclass
class _Followed:
    """A state partition; `lock` is held while its store is copied.

    Attributes:
        name: the owner of the rows, see `store_name`.
        store: None while its state task is closed.
        due_at: when the next snapshot is due, in monotonic s; None: the archive has to be asked.
    """

    plan: QueryPlan
    partition: int
    name: str
    archive: Archive
    store: TableStore | None = None
    volume: Volume | None = None
    state: SnapshotState = field(default_factory=SnapshotState)
    due_at: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Snapshots:
    """Owns the thread of this process that takes snapshots.

    Thread-safe.  The thread starts with the first store, and ends with the process.

    Args:
        threaded: without a thread, `turn` does its work.
    """

    def __init__(self, *, threaded: bool = True) -> None:
        self._lock = threading.Lock()
        self._followed: dict[_Key, _Followed] = {}
        self._threaded = threaded
        self._thread: threading.Thread | None = None

    def follow(self, plan: QueryPlan, partition: int, store: TableStore, volume: Volume) -> None:
        """Takes snapshots of a level store from now on, until `leave`."""
        uri = plan.settings.snapshots.uri
        if not uri:
            return
        key = plan.settings.application_id, plan.state_name, partition
        with self._lock:
            known = self._followed.get(key)
            if known is None or known.plan.changelog_topic_id != plan.changelog_topic_id:
                name = store_name(*key)
                known = _Followed(plan, partition, name, Archive(uri, name))
                self._followed[key] = known
            known.plan, known.volume, known.store = plan, volume, store
            if self._threaded and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
                self._thread.start()

    def leave(self, key: _Key) -> None:
        """Lets a store go, so that it can be closed; an upload of its copy may still end."""
        followed = self._followed.get(key)
        if followed is not None:
            with followed.lock:
                followed.store = None

    def state(self, key: _Key) -> SnapshotState | None:
        """The newest snapshot of a store; None if none are taken of it."""
        followed = self._followed.get(key)
        return followed.state if followed is not None else None

    def turn(self) -> None:
        """Takes the snapshots that are due."""
        with self._lock:
            everything = list(self._followed.values())
        for followed in everything:
            if followed.store is not None:
                _look_at(followed)

    def _run(self) -> None:
        while True:
            self.turn()
            time.sleep(_POLL_S)


def _look_at(followed: _Followed) -> None:
    """Takes a snapshot if it is due."""
    interval_s = followed.plan.settings.snapshots.interval_ms / 1000
    try:
        if followed.due_at is None:
            followed.due_at = _first_due(followed, interval_s)
        if time.monotonic() >= followed.due_at:
            _take(followed)
            _retain(followed)
            followed.state = replace(followed.state, error="")
            followed.due_at = time.monotonic() + interval_s
    except HoldfastError as error:
        _failed(followed, error, f"{error.fact} {error.cause}")
    except Exception as error:  # noqa: BLE001 - the thread serves the others, too
        _LOG.exception("A snapshot failed")
        _failed(followed, error, f"{type(error).__name__}: {error}")


def _first_due(followed: _Followed, interval_s: float) -> float:
    """When a store that has just been opened is due, going by the newest snapshot there is."""
    last = next(followed.archive.snapshots(followed.plan.changelog_topic_id), None)
    if last is None:
        return time.monotonic()
    followed.state = SnapshotState(last.position.offset, last.taken_ms, last.size)
    age_s = time.time() - last.taken_ms / 1000  # of another machine's clock, perhaps
    return time.monotonic() + min(max(interval_s - age_s, 0.0), interval_s)


def _take(followed: _Followed) -> None:
    began, folder = time.monotonic(), _copied(followed)
    if folder is not None:
        try:
            _archived(followed, folder, began)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _copied(followed: _Followed) -> Path | None:
    """Copies the store, and returns the copy's folder; None if there is nothing new in it."""
    with followed.lock:
        store, volume = followed.store, followed.volume
        position = store.position if store is not None else None
        if store is None or volume is None or position is None or not store.counted:
            return None
        if position.offset in {0, followed.state.offset}:
            return None
        folder = volume.scratch(f"taken/{followed.name}")
        store.copy_to(folder)
    _reached(SnapshotStep.COPIED, followed)
    return folder


def _archived(followed: _Followed, folder: Path, began: float) -> None:
    archive, position = followed.archive, copied_position(folder)
    files = archive.files_of(folder)
    manifest = Manifest(followed.name, position, int(time.time() * 1000), files)
    uploaded = archive.upload(folder, files)
    _reached(SnapshotStep.UPLOADED, followed)
    while not archive.name(manifest):
        uploaded += archive.upload(folder, files)
    _reached(SnapshotStep.NAMED, followed)
    seconds = time.monotonic() - began
    followed.state = SnapshotState(
        position.offset, manifest.taken_ms, manifest.size, uploaded, seconds
    )
    _LOG.info(
        "Snapshot of %s at changelog offset %d: %d files, %d bytes, %d of them uploaded, %.1f s",
        followed.name, position.offset, len(files), manifest.size, uploaded, seconds,
    )  # fmt: skip


def _retain(followed: _Followed) -> None:
    """Removes what is too much, also while the table does not change."""
    plan = followed.plan
    followed.archive.retain(plan.changelog_topic_id, plan.settings.snapshots.retained)


def _reached(step: SnapshotStep, followed: _Followed) -> None:
    reached(step, followed.plan.query.id, followed.partition)


def _failed(followed: _Followed, error: Exception, fact: str) -> None:
    """Tells an error once; the next try may be better."""
    if fact != followed.state.error:
        _LOG.warning("No snapshot of %s was taken: %s", followed.name, error)
    followed.state = replace(followed.state, error=fact)
    interval_s = followed.plan.settings.snapshots.interval_ms / 1000
    followed.due_at = time.monotonic() + min(interval_s, _AGAIN_S)
