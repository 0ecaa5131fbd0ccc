"""Copies of stores for a savepoint, and their upload beside the batches.

The driver has all state partitions copied between two batches: hard links, some hundredths of a
second each.  The files are uploaded while the stores go on.
"""

from __future__ import annotations

import secrets
import shutil
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import time

from holdfast.errors import HoldfastError
from holdfast.state import copied_position
from holdfast.state.snapshots.archive import Archive
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.table_store import TableStore, store_name
from holdfast.state.volume import Volume
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.steps import SavepointStep, reached

__all__ = ["Attempt", "CopyTold", "SavepointCopies"]

_UPLOADS = 2  # stores at a time


@dataclass(frozen=True)
class Attempt:
    """One attempt to make a savepoint.

    Attributes:
        folder: of the savepoint, see `folder_of`.
        token: distinguishes it from other attempts.  A state partition may have moved since: the
            copy that its former owner has is of another moment.
    """

    folder: str
    token: str


@dataclass(frozen=True)
class CopyTold:
    """One copied store: its manifest once all its files are uploaded; `error`: they cannot be."""

    query_id: str
    partition: int
    manifest: Manifest | None = None
    error: str = ""


class SavepointCopies:
    """Owns the copies of this process for one attempt at a time.  Thread-safe.

    Args:
        threaded: without threads, a store is uploaded where it is copied.
    """

    def __init__(self, *, threaded: bool = True) -> None:
        self._lock = threading.Lock()
        self._attempt: Attempt | None = None
        self._uploads: dict[tuple[str, int], Future[Manifest]] = {}
        self._pool = ThreadPoolExecutor(_UPLOADS, "savepoint") if threaded else None

    def copy(
        self, plan: QueryPlan, partition: int, store: TableStore, volume: Volume, attempt: Attempt
    ) -> None:
        """Copies a level store, between two batches, and begins to upload the copy.

        Copies for another attempt are forgotten.

        Raises:
            HoldfastError: it cannot be copied.
        """
        # A name of its own: an upload for a savepoint that was given up may still be at work.
        copy = volume.scratch(f"saved/{secrets.token_hex(8)}")
        store.copy_to(copy)
        reached(SavepointStep.FROZEN, plan.query.id, partition)
        upload = self._begun(_Upload(plan, partition, attempt.folder, copy))
        with self._lock:
            if attempt != self._attempt:
                self._attempt, self._uploads = attempt, {}
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

    def told(self, attempt: Attempt) -> tuple[CopyTold, ...]:
        """How far the copies for this attempt are."""
        with self._lock:
            uploads = dict(self._uploads) if attempt == self._attempt else {}
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
        name = store_name(settings.application_id, query_id, self.partition)
        return Manifest(name, position, int(time() * 1000), files)
