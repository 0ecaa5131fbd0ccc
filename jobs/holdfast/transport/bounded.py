"""A deadline for calls of the client that do not keep their own."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["within"]


def within(seconds: float, call: Callable[[], object]) -> None:
    """Runs `call` in a thread of its own; raises what it raises.

    Raises:
        TimeoutError: it still runs.  Nothing can end it; whatever it uses must be given up.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError
    if failed:
        raise failed[0]
