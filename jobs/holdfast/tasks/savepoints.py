"""Copies of stores for a savepoint, and their upload beside the batches.

The driver has all state partitions copied between two batches: hard links, some hundredths of a
second each.  The files are uploaded while the stores go on.
"""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.state import copied_position
from holdfast.state.snapshots.archive import Archive
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.table_store import TableStore, store_name
from holdfast.state.volume import Volume
from holdfast.tasks.plan import QueryPlan, Whereabouts
from holdfast.tasks.steps import SavepointStep, reached

__all__ = ["CopiesReport", "CopyTold", "SavepointCopies"]

_UPLOADS = 2  # stores at a time


@dataclass(frozen=True)
class CopyTold:
    """One copied store: its manifest once all its files are uploaded; `error`: they cannot be."""

    query_id: str
    partition: int
    manifest: Manifest | None = None
    error: str = ""


@dataclass(frozen=True)
class CopiesReport:
    """The copies for one attempt that a process has."""

    where: Whereabouts
    copies: tuple[CopyTold, ...]


class SavepointCopies:
    """Owns the copies of this process for one attempt at a time.  Thread-safe.

    Args:
        threaded: without threads, a store is uploaded where it is copied.
    """

    def __init__(self, *, threaded: bool = True) -> None:
        self._lock = threading.Lock()
        self._folder = ""
        self._uploads: dict[tuple[str, int], Future[Manifest]] = {}
        self._pool = ThreadPoolExecutor(_UPLOADS, "savepoint") if threaded else None

    def copy(
        self, plan: QueryPlan, partition: int, store: TableStore, volume: Volume, folder: str
    ) -> None:
        """Copies a level store, between two batches, and begins to upload the copy.

        Args:
            folder: of the attempt, see `folder_of`; copies for other attempts are forgotten.

        Raises:
            HoldfastError: it cannot be copied.
        """
        # A name of its own: an upload for a savepoint that was given up may still be at work.
        copy = volume.scratch(f"saved/{secrets.token_hex(8)}")
        try:
            store.copy_to(copy)
        except BaseException:
            shutil.rmtree(copy, ignore_errors=True)
            raise
        reached(SavepointStep.FROZEN, plan.query.id, partition)
        upload = self._begun(_Upload(plan, partition, folder, copy))
        with self._lock:
            if folder != self._folder:
                self._folder, self._uploads = folder, {}
            self._uploads[plan.query.id, partition] = upload

    def _begun(self, work: _Upload) -> Future[Manifest]:
        if self._pool is not None:
            return self._pool.submit(work)
        done: Future[Manifest] = Future()
        try:
            done.set_result(work())
        except HoldfastError as error:
            done.set_exception(error)
        return done

    def told(self, folder: str) -> tuple[CopyTold, ...]:
        """How far the copies for this attempt are."""
        with self._lock:
            uploads = dict(self._uploads) if folder == self._folder else {}
        return tuple(_told(key, upload) for key, upload in uploads.items())


def _told(key: tuple[str, int], upload: Future[Manifest]) -> CopyTold:
    if not upload.done():
        return CopyTold(*key)
    error = upload.exception()
    if error is None:
        return CopyTold(*key, upload.result())
    fact = error.fact if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
    return CopyTold(*key, error=fact)


@dataclass(frozen=True)
class _Upload:
    """The upload of one copy, which it removes at its end."""

    plan: QueryPlan
    partition: int
    folder: str
    copy: Path

    def __call__(self) -> Manifest:
        """Returns the manifest of the uploaded files."""
        query_id, settings = self.plan.query.id, self.plan.settings
        try:
            archive = Archive(settings.snapshots.uri, f"{self.folder}/{query_id}/{self.partition}")
            files, position = archive.files_of(self.copy), copied_position(self.copy)
            archive.upload(self.copy, files)
        finally:
            shutil.rmtree(self.copy, ignore_errors=True)
        reached(SavepointStep.SAVED, query_id, self.partition)
        name = store_name(settings.application_id, self.plan.state_name, self.partition)
        return Manifest(name, position, int(time.time() * 1000), files)
