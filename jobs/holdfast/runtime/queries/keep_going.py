"""Restarts streams that ended because a broker was unavailable, in the same driver.

Within a batch, the batch itself retries state tasks.  An error while a batch is planned or read
ends the stream.  A driver that ended with the stream would lose its executors and half a minute
more.

A query with a record that its topic does not take stands still: the others go on, and it is tried
again now and then, because the topic may take more one day.  A driver that ended would be started
again and again, and end at the same record.

A stream whose batch did not fit the commit markers is restarted from them, too: another driver has
committed (ADR 37).  If the other driver keeps running, one of the two has to give up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import HoldfastError, PlanAgain, ResultRefused, Retriable
from holdfast.runtime.jvm.failures import from_spark
from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.watching.health import Health
from holdfast.types.ids import Place

__all__ = ["KeepGoing"]

_LOG = logging.getLogger(__name__)
_PAUSE_S = 1.0
_TRY_S = 30.0  # how long a query stands still before it is tried again


@dataclass
class _Standing:
    """A query that stands still.

    Attributes:
        fact: why.
        try_at: when it is tried again; None: it is being tried.
        done: what it had committed then; if it has committed more, it goes on.
    """

    fact: str
    try_at: float | None
    done: Mapping[Place, int]


class KeepGoing:
    """Owns the time since which each query has been failing.

    Args:
        retry_timeout_s: how long a query may fail without a batch in between.
        ends: the job is to end when it has caught up, so no query may stand still.
    """

    def __init__(
        self,
        runs: Sequence[QueryRun],
        stop: threading.Event,
        health: Health,
        retry_timeout_s: float,
        *,
        ends: bool = False,
    ) -> None:
        self._runs = runs
        self._stop = stop
        self._health = health
        self._limit_s = retry_timeout_s
        self._ends = ends
        self._standing: dict[str, _Standing] = {}  # by query id
        self._failing: dict[str, tuple[int, float]] = {}  # query id -> its next batch, since when
        self._planned_again: dict[str, tuple[float, float]] = {}  # query id -> first and last time

    def check(self) -> None:
        """Restarts streams that ended with a retriable error.

        Raises:
            HoldfastError: a query has failed for good, or for too long.
        """
        for run_ in self._runs:
            if self._stands_still(run_):
                continue
            error = None if run_.held else run_.ended_by()
            if error is None:
                continue
            cause = from_spark(run_.query.id, error)
            if isinstance(cause, ResultRefused):
                self.stand(run_, cause)
                continue
            # A batch raises a Holdfast error itself only when its own retries are used up.
            given_up = error is run_.failure and isinstance(error, HoldfastError)
            waits = isinstance(cause, Retriable) and not given_up
            plans = isinstance(cause, PlanAgain) and not self._not_alone(run_)
            if not isinstance(cause, HoldfastError) or not (waits or plans):
                raise cause from error
            self._start_again(run_, cause)

    def stand(self, run_: QueryRun, cause: ResultRefused) -> None:
        """Has a query stand still, and says so.

        Raises:
            ResultRefused: the job is to end.
        """
        if self._ends:
            raise cause
        name = run_.query.id
        known = self._standing.get(name)
        if known is None or known.fact != cause.fact:
            _LOG.error("%s stands still, the other queries go on. %s", name, cause)
        self._standing[name] = _Standing(cause.fact, time.monotonic() + _TRY_S, run_.done)
        self._health.stuck(name, f"{cause.fact} {_said(cause.action)}")

    def _stands_still(self, run_: QueryRun) -> bool:
        standing = self._standing.get(run_.query.id)
        if standing is None:
            return False
        if run_.held or (standing.try_at is None and run_.done != standing.done):
            del self._standing[run_.query.id]
            self._health.stuck(run_.query.id, "")
            _LOG.info("%s stands still no more", run_.query.id)
            return False
        self._health.rest(run_.query.id)
        if standing.try_at is not None and time.monotonic() >= standing.try_at:
            self._try(run_, standing)
        return standing.try_at is not None

    def _try(self, run_: QueryRun, standing: _Standing) -> None:
        standing.try_at = time.monotonic() + _TRY_S
        try:
            run_.prepare()
        except ResultRefused as still:
            self.stand(run_, still)
        except (PlanAgain, Retriable) as error:
            _LOG.warning("%s is not tried yet: %s", run_.query.id, error.fact)
        else:
            standing.try_at = None
            run_.stream()

    def _start_again(self, run_: QueryRun, cause: HoldfastError) -> None:
        while not self._stop.wait(_PAUSE_S):
            if self._too_long(run_):
                raise cause
            _LOG.warning("%s: its stream starts again after: %s", run_.query.id, cause.fact)
            self._health.phase(f"starting the stream of {run_.query.id} again")
            try:
                run_.prepare()
            except ResultRefused as larger:
                self.stand(run_, larger)
                self._health.serving()
                return
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


def _said(action: str) -> str:
    return f"What to do: {action}" if action else ""
