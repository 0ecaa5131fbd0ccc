"""A volume: the folder of stores of one executor, which its replacement takes over.

On Kubernetes a volume is a pod's PersistentVolumeClaim, tied to the pod's ordinal.  Locally it is a
numbered folder with a lock that the operating system releases when the process dies:

    <root>/<ordinal>/.lock                                       held by the owner
    <root>/<ordinal>/volume.json                                 layout version
    <root>/<ordinal>/stores/<application>/<query>/<partition>/   one store
    <root>/<ordinal>/scratch/                                    files of snapshots, on their way
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from holdfast.errors import Refused, VolumeHeld
from holdfast.state.files import error_kind, read_json, write_json

__all__ = ["Volume", "claim", "claim_ordinal"]

_LOG = logging.getLogger(__name__)
_LAYOUT_VERSION = 1
_POLL_S = 0.1


class Volume:
    """Owns `<root>/<ordinal>` from `claim` until `release` or the end of the process."""

    def __init__(self, root: Path, ordinal: int, lock: int) -> None:
        """Call `claim` instead; `lock` is the open descriptor that holds the lock."""
        self.root = root
        self.ordinal = ordinal
        self.path = root / str(ordinal)
        self._stores = self.path / "stores"
        self._scratch = self.path / "scratch"
        self._lock: int | None = lock
        self._check_layout()
        shutil.rmtree(self._scratch, ignore_errors=True)  # a killed process left it

    def store_path(self, application_id: str, query_id: str, state_partition: int) -> Path:
        """The folder of one store, which may not exist."""
        return self._stores / application_id / query_id / str(state_partition)

    def stores(self) -> list[tuple[str, str, int]]:
        """(application id, query id, state partition) of every store present, sorted."""
        found = (path.relative_to(self._stores).parts for path in self._stores.glob("*/*/*/"))
        return sorted((app, query, int(p)) for app, query, p in found if p.isdecimal())

    def delete_store(self, application_id: str, query_id: str, state_partition: int) -> None:
        """Removes a store that is not open; does nothing if it is missing."""
        path = self.store_path(application_id, query_id, state_partition)
        if path.exists():
            shutil.rmtree(path)

    def scratch(self, name: str) -> Path:
        """A path below which files may be put that are lost when the volume is claimed again.

        Removes what is there; creates no folder but its parents.
        """
        path = self._scratch / name
        shutil.rmtree(path, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def adopt_store(
        self, folder: Path, application_id: str, query_id: str, state_partition: int
    ) -> None:
        """Moves the files of a store from the scratch folder into the place of one, at once.

        What is there must not be open; it is removed.
        """
        path = self.store_path(application_id, query_id, state_partition)
        self.delete_store(application_id, query_id, state_partition)
        path.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(path)

    def release(self) -> None:
        """Releases the volume for other processes.  May be called twice."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _check_layout(self) -> None:
        file = self.path / "volume.json"
        found = read_json(file)
        if found is None:
            write_json(file, _LAYOUT_VERSION, {})
        elif found.get("version") != _LAYOUT_VERSION:
            raise Refused(
                f"The volume {self.path} has layout version {found.get('version')}; this Holdfast "
                f"knows {_LAYOUT_VERSION}.",
                cause="it was last used by a newer Holdfast.",
                action="run that version, or give state.dir an empty folder.",
            )


def claim(root: Path, expected: int, wait_s: float) -> Volume:
    """Takes the lowest free volume.

    The first `expected` ordinals belong to the expected executors: a process that was just killed
    frees one of them in a moment, and with it the stores that the new process needs.

    Args:
        root: folder of all volumes; created if missing.
        expected: how many volumes are in use normally.
        wait_s: how long to wait for one of them before creating another.

    Raises:
        VolumeFull: no space for a new one.
        Refused: the folder cannot be used.
    """
    with _refusing(root):
        volume = _await_free(root, range(expected), wait_s) or _first_free(root, count(expected))
        assert volume is not None, "an endless range has a free ordinal"
        return volume


def claim_ordinal(root: Path, ordinal: int, wait_s: float) -> Volume:
    """Takes one particular volume: on Kubernetes a pod has the one of its ordinal.

    Args:
        root: where the pod's PersistentVolumeClaim is mounted; created if missing.
        ordinal: the pod's ordinal.
        wait_s: how long to wait for a process of the same pod that was just killed.

    Raises:
        VolumeFull: no space for a new one.
        Refused: the folder cannot be used.
        VolumeHeld: another process still holds it.
    """
    with _refusing(root):
        volume = _await_free(root, (ordinal,), wait_s)
    if volume is None:
        raise VolumeHeld(
            f"The volume {root / str(ordinal)} is held by another process after {wait_s:g} s.",
            cause="another executor or query server with this number runs, or one hangs",
            action="stop it, or give this one a folder of its own (--home; a query server also "
            "--server-id); in a cluster give each pod a claim of its own (ReadWriteOncePod), and "
            "delete the pod that hangs.",
            pid=_holder(root / str(ordinal)),
        )
    return volume


@contextmanager
def _refusing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise error_kind(error)(
            f"No volume could be claimed in {root}: {error}.",
            action="give state.dir a folder with space that this user may write.",
        ) from error


def _await_free(root: Path, ordinals: Sequence[int], wait_s: float) -> Volume | None:
    deadline, told = time.monotonic() + wait_s, False
    while True:
        volume = _first_free(root, ordinals)
        if volume is not None or time.monotonic() >= deadline:
            return volume
        if not told:
            _LOG.info("Other processes hold the volumes of %s: waiting %g s", root, wait_s)
            told = True
        time.sleep(_POLL_S)


def _first_free(root: Path, ordinals: Iterable[int]) -> Volume | None:
    for ordinal in ordinals:
        lock = _try_lock(root / str(ordinal))
        if lock is not None:
            try:
                return Volume(root, ordinal, lock)
            except BaseException:
                os.close(lock)
                raise
    return None


def _try_lock(folder: Path) -> int | None:
    """An open descriptor with the folder's lock, or None if another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(OSError):  # a full disk; the number is for people
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
    except BlockingIOError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    return handle


def _holder(folder: Path) -> int:
    """The process that holds the folder's lock; 0 if it has not said so."""
    try:
        return int((folder / ".lock").read_text(encoding="ascii") or 0)
    except (OSError, ValueError):
        return 0
