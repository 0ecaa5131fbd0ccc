"""Holds the load of a run while an input topic is away: three files in the run's folder.

load.hold   the nemesis wants nothing to be sent
load.held   the workload sends nothing, and all that it sent has arrived
load.go     how many records the workload sends at once when it goes on
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from holdfast.errors import HoldfastError

__all__ = ["LoadGate"]

_POLL_S = 0.05
_PATIENCE_S = 120.0


class LoadGate:
    """Owns the three files; the nemesis has the upper half, the workload the lower one.

    Args:
        patience_s: how long one waits for the other.
    """

    def __init__(self, folder: Path, patience_s: float = _PATIENCE_S) -> None:
        self._hold, self._held, self._go = (folder / f"load.{n}" for n in ("hold", "held", "go"))
        self._patience_s = patience_s

    # -- the nemesis -------------------------------------------------------------------------

    def hold(self) -> None:
        """Returns when nothing is sent any more.

        Raises:
            HoldfastError: the workload does not stop.
        """
        self._go.unlink(missing_ok=True)
        self._hold.touch()
        self._await(self._held.exists, "stopped sending")

    def go_on(self, at_once: int = 0) -> None:
        """Lets it go on; returns when the `at_once` records have arrived.

        Raises:
            HoldfastError: it does not go on.
        """
        self._go.write_text(str(at_once))
        self._hold.unlink(missing_ok=True)
        self._await(lambda: not self._held.exists(), "gone on")

    def open(self) -> None:
        """Takes the hold back, whoever waits for it."""
        self._hold.unlink(missing_ok=True)

    # -- the workload ------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Is nothing to be sent?"""
        return self._hold.exists()

    def tell_held(self) -> None:
        """All that was sent has arrived."""
        self._held.touch()

    def at_once(self) -> int:
        """How many records are to be sent at once now that it is open."""
        return int(self._go.read_text()) if self._go.exists() else 0

    def tell_gone_on(self) -> None:
        """Those have arrived."""
        self._held.unlink(missing_ok=True)

    def _await(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._patience_s
        while not holds():
            if time.monotonic() >= deadline:
                raise HoldfastError(
                    f"The workload has not {what} after {self._patience_s:.0f} s.",
                    cause="it has ended, or the broker does not take its records",
                    action="see the run's history",
                )
            time.sleep(_POLL_S)
