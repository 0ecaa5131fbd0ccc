"""The layout and expiry of a query's state keys in its stores.

Apart from the processors, so that opening or describing stores does not import Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.tasks.processors.aggregates.elements import keeps_elements
from holdfast.tasks.processors.aggregates.state import by_record
from holdfast.types.statements.topology import (
    AggregateStep,
    DeduplicateStep,
    JoinForm,
    JoinStep,
    Query,
)

__all__ = ["Layout", "layout_of"]


@dataclass(frozen=True)
class Layout:
    """The properties of a store's keys.

    Attributes:
        windowed: state keys end in a time (`tasks.evaluate.keys.window_key`) and so expire.
        segmented: state keys leave the store a segment at a time.
        retention_ms: how long a state key is kept after its time; None: for ever, or until the
            processor removes it.
        elements: rows have element rows (`state.elements`), which leave with them.
    """

    windowed: bool = False
    segmented: bool = False
    retention_ms: int | None = None
    elements: bool = False


def layout_of(query: Query) -> Layout:
    """The layout of a query with state."""
    step = query.step
    if isinstance(step, AggregateStep) and step.window is not None:
        kept_ms, elements = step.window.retention_ms, keeps_elements(step)
        return Layout(True, not by_record(step), kept_ms, elements)
    if isinstance(step, JoinStep) and step.form is JoinForm.STREAM_STREAM:
        return Layout(windowed=True, segmented=True)
    if isinstance(step, DeduplicateStep):
        return Layout(windowed=True, retention_ms=2 * step.within_ms)
    return Layout()
