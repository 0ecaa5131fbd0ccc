"""What keeps a query's batches coming, one after the other: Spark's stream, or a thread of ours.

Batches whose rows Spark SQL reads come from Structured Streaming.  Of a packed batch Spark SQL
reads nothing (ADR 29), so that there it would only be a clock, and a dear one (ADR 30).
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
_END_S = 1.0  # a plan takes milliseconds, but where no broker answers
_TOO_LATE = "Python worker failed to connect back"
_Planned = TypeVar("_Planned")


class Stream(Protocol):
    """The batches of one query."""

    @property
    def active(self) -> bool:
        """Does it go on?"""

    @property
    def starting(self) -> bool:
        """Has it not asked for its first batch yet?"""

    @property
    def idle(self) -> bool:
        """Does it wait, having found nothing new?"""

    @property
    def too_late(self) -> bool:
        """Did it end because the machine was too slow for Spark to start it?"""

    def error(self) -> BaseException | None:
        """What ended it; None while it goes on, or when it was stopped."""

    def stop(self) -> None:
        """No batch of it begins any more."""


class SparkStream:
    """A streaming query of Spark's."""

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
        # Only its status tells: Spark reports no progress of a trigger that found nothing.
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
    """Owns a thread that plans batches and has them done.

    Args:
        plan: what the next batch covers; None when there is nothing new.
        work: does a batch; does nothing when it is told, in time, that the stream was stopped.
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
        """Whoever has the batch in hand sees to its end; the thread ends after it."""
        self._stopped.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._turn()
        except BaseException as error:  # noqa: BLE001 - told by `error`, where it is decided on
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
