"""The folder of a local job's Unix sockets, and the removal of sockets that killed jobs left.

Spark's executors talk to their Python workers over them.  A killed process leaves its socket files
behind; the next job of the same home removes them but keeps those of live processes.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["remove_dead", "socket_folder"]

_PATH_MAX = 60  # characters: a socket's path may have 107, its name takes 42
_BOUND = Path("/proc/net/unix")  # one line per socket of this network namespace
_NAMESPACE = Path("/proc/self/ns/net")


def socket_folder(scratch: Path) -> Path | None:
    """The scratch folder of a home; if its path is too long, a folder of this user's.

    None: there is neither, and the sockets are in Java's folder for temporary files.
    """
    if len(str(scratch)) <= _PATH_MAX:
        return scratch
    # Per namespace, because sockets of another namespace are not visible here.
    with suppress(OSError):
        namespace = _NAMESPACE.stat().st_ino if _NAMESPACE.exists() else 0
        own = Path(tempfile.gettempdir(), f"holdfast-{os.getuid()}-{namespace}")
        own.mkdir(mode=0o700, exist_ok=True)
        private = not own.is_symlink() and own.stat().st_uid == os.getuid()
        return own if private and len(str(own)) <= _PATH_MAX else None
    return None


def remove_dead(folder: Path) -> list[Path]:
    """Removes sockets that no process holds from a folder, on systems that can tell."""
    files = [path for path in folder.glob(".*.sock") if path.is_socket()]
    try:
        # Read after listing the files, so that it includes every live one of them.
        lines = _BOUND.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    bound = {line.rpartition(" ")[2].rpartition("/")[2] for line in lines}
    dead = [path for path in files if path.name not in bound]
    for path in dead:
        path.unlink(missing_ok=True)
    return dead
