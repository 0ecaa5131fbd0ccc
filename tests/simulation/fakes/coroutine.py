"""A call that can be stopped in the middle and go on much later, as a stopped process does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Abandoned", "Coroutine"]


class Abandoned(BaseException):
    """Unwinds a call that nobody will resume."""


class Coroutine:
    """Runs `call` in a thread of its own, but never at the same time as its caller.

    Whoever calls `resume` waits until the call has ended or has called `pause`; so the order of
    everything is the same in every run.
    """

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._mine = threading.Semaphore(0)
        self._callers = threading.Semaphore(0)
        self._answer: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.ended = False
        self._abandoned = False

    def resume(self) -> bool:
        """Whether the call has ended by now."""
        if not self._thread.is_alive() and not self.ended:
            self._thread.start()
        else:
            self._mine.release()
        self._callers.acquire()
        if self.ended:
            self._thread.join()
        return self.ended

    def pause(self) -> None:
        """Called from inside: gives the turn back to whoever called `resume`."""
        self._callers.release()
        self._mine.acquire()
        if self._abandoned:
            raise Abandoned

    def abandon(self) -> None:
        """Ends the call where it is."""
        self._abandoned = True
        while not self.resume():
            pass

    def outcome(self) -> Any:
        """Returns the call's result, or raises its error."""
        if self._error is not None:
            raise self._error
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._call()
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            self._error = error
        self.ended = True
        self._callers.release()
