"""Where the Unix sockets of a local job lie, and how those of killed ones are cleared away.

Spark's executors talk to their Python workers over them.  Who is killed leaves his files behind;
the next job of the same home clears them away, and whatever lives keeps its own.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["remove_dead", "socket_folder"]

_PATH_MAX = 60  # characters: a socket's path has 107 at most, its name takes 42
_BOUND = Path("/proc/net/unix")  # a line for each socket of this network namespace
_NAMESPACE = Path("/proc/self/ns/net")


def socket_folder(scratch: Path) -> Path | None:
    """The scratch folder of a home; where its path is too long, one of this user's own.

    None: there is neither, and they lie where Java's temporary files do.
    """
    if len(str(scratch)) <= _PATH_MAX:
        return scratch
    # Of this namespace alone: whether a socket of another one lives cannot be seen.
    with suppress(OSError):
        namespace = _NAMESPACE.stat().st_ino if _NAMESPACE.exists() else 0
        own = Path(tempfile.gettempdir(), f"holdfast-{os.getuid()}-{namespace}")
        own.mkdir(mode=0o700, exist_ok=True)
        private = not own.is_symlink() and own.stat().st_uid == os.getuid()
        return own if private and len(str(own)) <= _PATH_MAX else None
    return None


def remove_dead(folder: Path) -> list[Path]:
    """Removes the sockets in a folder that no process has any more; where that can be known."""
    files = [path for path in folder.glob(".*.sock") if path.is_socket()]
    try:
        # Read after the files: what is there and alive is among them.
        lines = _BOUND.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    bound = {line.rpartition(" ")[2].rpartition("/")[2] for line in lines}
    dead = [path for path in files if path.name not in bound]
    for path in dead:
        path.unlink(missing_ok=True)
    return dead
