"""Starts the streams of a job one after another.

Each Spark stream has its own Python process on the driver, and Spark gives it ten seconds to start
(PythonWorkerFactory, not configurable).  A handful at once on two cores is too slow; one at a time
is fast enough, and a stream that is late nevertheless is restarted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from holdfast.runtime.queries.query_run import QueryRun

__all__ = ["start_streams"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.05
_ATTEMPTS = 5
_STARTING_S = 60.0


def start_streams(runs: Sequence[QueryRun], stop: threading.Event) -> None:
    """Returns when every stream reads its source or has failed for good, or `stop` is set."""
    for run_ in runs:
        for _ in range(_ATTEMPTS):
            if stop.is_set():
                return
            run_.stream()
            _await_source(run_, stop)
            if run_.streaming is None or not run_.streaming.too_late:
                break
            _LOG.warning("%s: its reader took too long to start; starting it again", run_.query.id)


def _await_source(run_: QueryRun, stop: threading.Event) -> None:
    deadline = time.monotonic() + _STARTING_S
    while _starting(run_) and time.monotonic() < deadline and not stop.wait(_POLL_S):
        pass


def _starting(run_: QueryRun) -> bool:
    return run_.streaming is not None and run_.streaming.starting
