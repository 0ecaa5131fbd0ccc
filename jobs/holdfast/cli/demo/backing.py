"""The demo's Kafka, and the schema registry that keeps its schemas there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from holdfast.cli.demo.files import last_line
from holdfast.cli.demo.processes import Child
from holdfast.errors import HoldfastError
from holdfast.local.broker import LocalKafka
from holdfast.local.registry import LocalRegistry

__all__ = ["Backing"]

_LOOK_S = 0.25


class Backing:
    """Both servers of the demo's home; its commands start them."""

    def __init__(self, home: Path) -> None:
        self._kafka = LocalKafka(home)
        self._registry = LocalRegistry(home)
        self.pids: list[int] = []

    def await_started(self, registry: Child, log: Path, tell: Callable[[str], None]) -> None:
        """Wait for the command that starts the registry; Kafka runs already.

        Args:
            log: what the command prints.

        Raises:
            HoldfastError: it failed.
        """
        while registry.running:
            tell(last_line(log))
            time.sleep(_LOOK_S)
        statuses = (self._kafka.status(), self._registry.status())
        self.pids = [status.pid for status in statuses if status is not None]
        if registry.wait() != 0:
            raise HoldfastError(
                f"The schema registry did not start: {last_line(log)}", action=f"read {log}."
            )

    def stop(self) -> None:
        """Stop both; what they keep stays."""
        self._registry.stop()
        self._kafka.stop()
