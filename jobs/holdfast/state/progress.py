"""Running restores, published in the volumes' folder for other processes.

A state task only answers when its restore is done; meanwhile the restore's progress is in
`<root>/restoring/<application>-<query>-<partition>.json`.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdfast.state.files import read_json, write_json
from holdfast.state.restore import RestoreProgress

__all__ = ["RestoreProgressFile", "RestoringStore", "restoring"]

_VERSION = 1
_FOLDER = "restoring"
_WRITE_EVERY_S = 0.5
_STALE_S = 30.0  # a killed process leaves its file behind


@dataclass(frozen=True)
class RestoringStore:
    """One running restore, as of its last sign of life."""

    application_id: str
    query_id: str
    state_partition: int
    pid: int
    updated_s: float  # seconds since the epoch
    progress: RestoreProgress


class RestoreProgressFile:
    """Owns the progress file of one restore; as a context manager it removes the file at the end.

    Call it with each `RestoreProgress`: it writes the first one and then at most two a second.  A
    file that cannot be written does not fail the restore.
    """

    def __init__(
        self, root: Path | None, application_id: str, query_id: str, state_partition: int
    ) -> None:
        """`root` is the folder of all volumes; with None (no disk) it writes nothing."""
        self._names = (application_id, query_id, state_partition)
        self._file: Path | None = None
        if root is not None:
            name = f"{application_id}-{query_id}-{state_partition}.json"
            self._file = root / _FOLDER / name
        self._written = float("-inf")

    def __call__(self, progress: RestoreProgress) -> None:
        now = time.monotonic()
        if self._file is None or now - self._written < _WRITE_EVERY_S:
            return
        self._written = now
        application_id, query_id, state_partition = self._names
        found = RestoringStore(
            application_id, query_id, state_partition, os.getpid(), time.time(), progress
        )
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._file, _VERSION, asdict(found))
        except OSError:
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def restoring(root: Path) -> list[RestoringStore]:
    """Running restores in the volumes under `root`, sorted by name and state partition."""
    files = (root / _FOLDER).glob("*.json")
    found = (_restoring_store(read_json(file)) for file in files)
    fresh = [s for s in found if s is not None and time.time() - s.updated_s < _STALE_S]
    return sorted(fresh, key=lambda s: (s.application_id, s.query_id, s.state_partition))


def _restoring_store(fields: dict[str, Any] | None) -> RestoringStore | None:
    if fields is None or fields.pop("version", None) != _VERSION:
        return None
    progress = RestoreProgress(**fields.pop("progress"))
    return RestoringStore(**fields, progress=progress)
