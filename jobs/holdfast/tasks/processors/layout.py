"""How the state keys of a query lie in its stores, and when they leave: known without a processor.

Who only opens stores, or only tells of them, does without Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.tasks.processors.aggregates.state import by_record
from holdfast.types.topology import (
    AggregateStep,
    DeduplicateStep,
    JoinForm,
    JoinStep,
    Query,
)

__all__ = ["Layout", "layout_of"]


@dataclass(frozen=True)
class Layout:
    """What a store is told of its keys.

    Attributes:
        windowed: state keys end in a time (8 bytes, `tasks.keys.window_key`) and so expire.
        segmented: they leave the store a segment at a time.
        retention_ms: how long after it a state key's time is kept; None: for ever, or the
            processor itself removes it.
    """

    windowed: bool = False
    segmented: bool = False
    retention_ms: int | None = None


def layout_of(query: Query) -> Layout:
    """The layout of a query with state."""
    step = query.step
    if isinstance(step, AggregateStep) and step.window is not None:
        return Layout(True, not by_record(step), step.window.retention_ms)
    if isinstance(step, JoinStep) and step.form is JoinForm.STREAM_STREAM:
        return Layout(windowed=True, segmented=True)
    if isinstance(step, DeduplicateStep):
        return Layout(windowed=True, retention_ms=2 * step.within_ms)
    return Layout()
