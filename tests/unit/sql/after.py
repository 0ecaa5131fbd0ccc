"""What DuckDB makes of a step's outputs, as a state task evaluates them."""

from __future__ import annotations

import pyarrow as pa

from holdfast.tasks.evaluate.outputs import Expressions
from holdfast.types.topology import AggregateStep

__all__ = ["last_value"]


def last_value(step: AggregateStep, frame: dict[str, pa.Array]) -> pa.Array:
    """The last output column."""
    return Expressions(step.outputs).columns(frame)[-1]
