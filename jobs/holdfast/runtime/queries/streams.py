"""The stream of a query's batches: Spark's streaming query, or a thread of ours.

Batches whose rows Spark SQL reads come from Structured Streaming.  Spark SQL reads nothing of a
packed batch (ADR 29), so Structured Streaming would only be an expensive clock (ADR 30).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["PlannedStream", "SparkStream", "Stream"]

_POLL_S = 0.02
_END_S = 1.0  # planning takes milliseconds, unless no broker answers
_TOO_LATE = "Python worker failed to connect back"
_Planned = TypeVar("_Planned")


class Stream(Protocol):
    """The batches of one query."""

    @property
    def active(self) -> bool:
        """Whether the stream is running."""

    @property
    def starting(self) -> bool:
        """Whether the stream has not asked for its first batch yet."""

    @property
    def idle(self) -> bool:
        """Whether the stream waits because there is no new data."""

    @property
    def too_late(self) -> bool:
        """Whether the stream ended because the machine was too slow to start it."""

    def error(self) -> BaseException | None:
        """The error that ended the stream; None while it runs, or if it was stopped."""

    def stop(self) -> None:
        """Lets no further batch begin."""


class SparkStream:
    """A Spark streaming query."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    @property
    def active(self) -> bool:
        return self._query.isActive

    @property
    def starting(self) -> bool:
        return self.active and self._message().startswith("Initializing")

    @property
    def idle(self) -> bool:
        # Only the status shows it: Spark reports no progress for a trigger without data.
        return self._message().startswith("Waiting")

    @property
    def too_late(self) -> bool:
        return not self.active and _TOO_LATE in str(self.error())

    def error(self) -> BaseException | None:
        return None if self.active else self._query.exception()

    def stop(self) -> None:
        with suppress(PySparkException):
            self._query.stop()

    def _message(self) -> str:
        return str(self._query.status["message"])


class PlannedStream(Generic[_Planned]):
    """Owns a thread that plans and runs batches.

    Args:
        plan: plans the next batch; None if there is no new data.
        work: runs a batch; does nothing if it learns in time that the stream was stopped.
        interval_s: from the start of one batch to that of the next, at least.
    """

    def __init__(
        self,
        name: str,
        plan: Callable[[], _Planned | None],
        work: Callable[[_Planned, Callable[[], bool]], None],
        interval_s: float,
    ) -> None:
        self._plan = plan
        self._work = work
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._idle = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    @property
    def starting(self) -> bool:
        return False

    @property
    def idle(self) -> bool:
        return self._idle

    @property
    def too_late(self) -> bool:
        return False

    def error(self) -> BaseException | None:
        return None if self.active else self._error

    def stop(self) -> None:
        """Lets the current batch finish; the thread ends after it."""
        self._stopped.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._turn()
        except BaseException as error:  # noqa: BLE001 - the caller decides by `error`
            self._error = error

    def _turn(self) -> None:
        began = time.monotonic()
        batch = self._plan()
        if batch is not None:
            self._work(batch, self._stopped.is_set)
        self._idle = True
        least_s = _POLL_S if batch is None else 0.0
        self._stopped.wait(max(self._interval_s - (time.monotonic() - began), least_s))
        self._idle = False
