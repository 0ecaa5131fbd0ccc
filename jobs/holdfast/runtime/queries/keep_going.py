"""Restarts streams that ended because a broker was unavailable, in the same driver.

Within a batch, the batch itself retries state tasks.  An error while a batch is planned or read
ends the stream.  A driver that ended with the stream would lose its executors and half a minute
more.

A stream whose batch did not fit the commit markers is restarted from them, too: another driver has
committed (ADR 37).  If the other driver keeps running, one of the two has to give up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from holdfast.errors import HoldfastError, PlanAgain, Retriable
from holdfast.runtime.jvm.failures import from_spark
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.watching.health import Health

__all__ = ["KeepGoing"]

_LOG = logging.getLogger(__name__)
_PAUSE_S = 1.0


class KeepGoing:
    """Owns the time since which each query has been failing.

    Args:
        retry_timeout_s: how long a query may fail without a batch in between.
    """

    def __init__(
        self,
        runs: Sequence[QueryRun],
        stop: threading.Event,
        health: Health,
        retry_timeout_s: float,
    ) -> None:
        self._runs = runs
        self._stop = stop
        self._health = health
        self._limit_s = retry_timeout_s
        self._failing: dict[str, tuple[int, float]] = {}  # query id -> its next batch, since when
        self._planned_again: dict[str, tuple[float, float]] = {}  # query id -> first and last time

    def check(self) -> None:
        """Restarts streams that ended with a retriable error.

        Raises:
            HoldfastError: a query has failed for good, or for too long.
        """
        for run_ in self._runs:
            error = None if run_.held else run_.ended_by()
            if error is None:
                continue
            cause = from_spark(run_.query.id, error)
            # A batch raises a Holdfast error itself only when its own retries are used up.
            given_up = error is run_.failure and isinstance(error, HoldfastError)
            waits = isinstance(cause, Retriable) and not given_up
            plans = isinstance(cause, PlanAgain) and not self._not_alone(run_)
            if not isinstance(cause, HoldfastError) or not (waits or plans):
                raise cause from error
            self._start_again(run_, cause)

    def _start_again(self, run_: QueryRun, cause: HoldfastError) -> None:
        while not self._stop.wait(_PAUSE_S):
            if self._too_long(run_):
                raise cause
            _LOG.warning("%s: its stream starts again after: %s", run_.query.id, cause.fact)
            self._health.phase(f"starting the stream of {run_.query.id} again")
            try:
                run_.prepare()
            except (PlanAgain, Retriable) as still:
                cause = still
            else:
                run_.stream()
                self._health.serving()
                return

    def _not_alone(self, run_: QueryRun) -> bool:
        """Whether the query has been replanned again and again for longer than the limit."""
        now = time.monotonic()
        first, last = self._planned_again.get(run_.query.id, (now, now))
        first = now if now - last > self._limit_s else first
        self._planned_again[run_.query.id] = (first, now)
        return now - first > self._limit_s

    def _too_long(self, run_: QueryRun) -> bool:
        now = time.monotonic()
        batch_id, since = self._failing.get(run_.query.id, (-1, now))
        if batch_id != run_.batch_id:
            since = now
        self._failing[run_.query.id] = (run_.batch_id, since)
        return now - since > self._limit_s
