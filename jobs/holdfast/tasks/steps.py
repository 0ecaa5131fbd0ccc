"""Notifies an observer after each step that `holdfast.types.steps` names.

Tests observe the steps to crash or hold a process after each; no user setting reaches the
observer.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.types.steps import AnyStep, RescaleStep, SavepointStep, SnapshotStep, Step

__all__ = [
    "AnyStep",
    "Observer",
    "RescaleStep",
    "SavepointStep",
    "SnapshotStep",
    "Step",
    "observe",
    "reached",
]

Observer = Callable[[AnyStep, str, int], None]

_observer: Observer | None = None


def observe(observer: Observer | None) -> None:
    """Calls `observer(step, query id, partition)` after every step; None ends it."""
    global _observer  # noqa: PLW0603 - a test hook has to be reachable from inside the task
    _observer = observer


def reached(step: AnyStep, query_id: str, partition: int) -> None:
    """Notifies the observer that a step is done."""
    if _observer is not None:
        _observer(step, query_id, partition)
