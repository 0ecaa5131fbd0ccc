"""The demo's Kafka, and the schema registry that keeps its schemas there."""

from __future__ import annotations

from pathlib import Path

from holdfast.local.broker import LocalKafka
from holdfast.local.registry import LocalRegistry

__all__ = ["Backing"]


class Backing:
    """Both servers of the demo's home; its commands start them."""

    def __init__(self, home: Path) -> None:
        self._kafka = LocalKafka(home)
        self._registry = LocalRegistry(home)

    def pids(self) -> list[int]:
        """Those that run."""
        statuses = (self._kafka.status(), self._registry.status())
        return [status.pid for status in statuses if status is not None]

    def stop(self) -> None:
        """Stop both; what they keep stays."""
        self._registry.stop()
        self._kafka.stop()
