"""The stream of a query's batches: a thread that plans and runs one after the other (ADR 30)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Stream"]

_POLL_S = 0.02
_END_S = 1.0  # planning takes milliseconds, unless no broker answers
_Planned = TypeVar("_Planned")


class Stream(Generic[_Planned]):
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
        """Whether the stream is running."""
        return self._thread.is_alive()

    @property
    def idle(self) -> bool:
        """Whether the stream waits because there is no new data."""
        return self._idle

    def error(self) -> BaseException | None:
        """The error that ended the stream; None while it runs, or if it was stopped."""
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
