"""PySpark's daemon of Python workers (`spark.python.daemon.module`) with less memory and log noise.

`pyspark/__init__.py` imports Spark SQL, which the daemon does not need: 9 MB of an executor.  Here
it runs in the workers, after the fork.

Spark closes a worker's socket when it no longer needs the worker, as after stopping a stream.  The
worker then ends; over a Unix domain socket PySpark's daemon would also log a stack trace as if
something were wrong.  A worker that only restores does not load Arrow.
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
_GONE = 1  # exit code: the worker must not be used again


def _without_contents(name: str) -> ModuleType | None:
    """A package whose modules can be imported although its own code has not run yet.

    Returns:
        None if the package is imported already.
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
    """Runs PySpark's worker loop until its socket is closed."""
    # Until PySpark's loop sets its own handler, the daemon's handler would get the signal.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _complete()
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return _GONE


def _complete() -> None:
    """Runs the package's own code once; the daemon calls `worker` again for each task."""
    global _package
    package, _package = _package, None
    if package is not None and package.__spec__ is not None and package.__spec__.loader is not None:
        package.__spec__.loader.exec_module(package)


if __name__ == "__main__":
    load_later()
    daemon.worker = worker
    daemon.manager()
