"""PySpark's daemon of Python workers (`spark.python.daemon.module`), lighter and a little quieter.

`pyspark/__init__.py` imports Spark SQL, which the daemon has no use for: 9 MB of an executor.  Here
it runs in the workers, after the fork.

Spark closes a worker's socket when it wants no more of it, a stream's that was stopped for one.
The worker then ends either way; over a Unix domain socket PySpark's daemon also writes a stack
trace, as if something were wrong.  A worker that only restores has no Arrow.
"""

from __future__ import annotations

import signal
import socket
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from holdfast.lazy_imports import load_later

__all__ = ["worker"]

_PYSPARK = "pyspark"
_GONE = 1  # an exit code: the worker is not to be used again


def _without_contents(name: str) -> ModuleType | None:
    """A package whose modules can be imported and whose own code is still to run.

    Returns:
        None if it has been imported: there is nothing left to run.
    """
    if name in sys.modules:
        return None
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package = sys.modules[name] = module_from_spec(spec)
    return package


_package = _without_contents(_PYSPARK)
daemon: Any = import_module(f"{_PYSPARK}.daemon")
_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """PySpark's worker loop; a socket that was closed ends it."""
    # Until PySpark's loop has its own, a signal would be taken for one to the daemon.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _complete()
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return _GONE


def _complete() -> None:
    """Runs the package's own code, once; the daemon calls `worker` again for each task."""
    global _package
    package, _package = _package, None
    if package is not None and package.__spec__ is not None and package.__spec__.loader is not None:
        package.__spec__.loader.exec_module(package)


if __name__ == "__main__":
    load_later()
    daemon.worker = worker
    daemon.manager()
