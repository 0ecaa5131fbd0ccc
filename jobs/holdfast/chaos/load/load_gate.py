"""Holds the load of a run while an input topic is away: three files in the run's folder.

load.hold   the nemesis asks the workload to stop sending
load.held   the workload has stopped, and all records it sent have arrived
load.go     how many records the workload sends at once when it continues
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
    """Owns the three files; the nemesis uses the first methods, the workload the last ones.

    Args:
        patience_s: how long one side waits for the other.
    """

    def __init__(self, folder: Path, patience_s: float = _PATIENCE_S) -> None:
        self._hold, self._held, self._go = (folder / f"load.{n}" for n in ("hold", "held", "go"))
        self._patience_s = patience_s

    # -- the nemesis -------------------------------------------------------------------------

    def hold(self) -> None:
        """Stops the load; returns when everything sent has arrived.

        Raises:
            HoldfastError: the workload does not stop.
        """
        self._go.unlink(missing_ok=True)
        self._hold.touch()
        self._await(self._held.exists, "stopped sending")

    def go_on(self, at_once: int = 0) -> None:
        """Lets the load continue; returns when the `at_once` records have arrived.

        Raises:
            HoldfastError: the workload does not continue.
        """
        self._go.write_text(str(at_once))
        self._hold.unlink(missing_ok=True)
        self._await(lambda: not self._held.exists(), "gone on")

    def open(self) -> None:
        """Removes the hold, whoever waits for it."""
        self._hold.unlink(missing_ok=True)

    # -- the workload ------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the workload must not send."""
        return self._hold.exists()

    def tell_held(self) -> None:
        """Reports that sending has stopped and all records have arrived."""
        self._held.touch()

    def at_once(self) -> int:
        """How many records to send at once, now that the gate is open."""
        return int(self._go.read_text()) if self._go.exists() else 0

    def tell_gone_on(self) -> None:
        """Reports that these records have arrived."""
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
