"""Evaluates a step's outputs in DuckDB, as a state task does."""

from __future__ import annotations

import pyarrow as pa

from holdfast.tasks.evaluate.outputs import Expressions
from holdfast.types.statements.topology import AggregateStep

__all__ = ["last_value"]


def last_value(step: AggregateStep, frame: dict[str, pa.Array]) -> pa.Array:
    """The last output column."""
    return Expressions(step.outputs).columns(frame)[-1]
