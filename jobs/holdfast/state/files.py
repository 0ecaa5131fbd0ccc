"""Small durable files: versioned JSON, written to a temporary file, synced, then renamed.

Also the errors of a volume's file system.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any, TextIO

from holdfast.errors import Refused, VolumeFull

__all__ = ["error_kind", "private_file", "read_json", "write_json"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def error_kind(error: OSError) -> type[VolumeFull | Refused]:
    """The error to raise for one of a volume's file system."""
    return VolumeFull if error.errno in _FULL else Refused


def write_json(path: Path, version: int, fields: dict[str, Any], *, private: bool = False) -> None:
    """Replaces `path` so that readers find the old or the new content, also after a crash.

    Args:
        private: readable by this user only.

    Raises:
        OSError: the file cannot be written; the old content stays.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with private_file(beside) if private else beside.open("w", encoding="utf-8") as file:
        json.dump({"version": version, **fields}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    _sync_folder(path.parent)


def private_file(path: Path) -> TextIO:
    """Opens an empty file for writing that only this user can read (mode 0600)."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(handle, 0o600)  # the file may have existed before
    return os.fdopen(handle, "w", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any] | None:
    """The content with its version; None if the file is missing or not complete JSON."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _sync_folder(folder: Path) -> None:
    # A rename is durable once its folder is synced.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
