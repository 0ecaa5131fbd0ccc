"""What DuckDB makes of a step's outputs, as a state task evaluates them."""

from __future__ import annotations

import pyarrow as pa

from holdfast.tasks.outputs import Outputs
from holdfast.types.topology import AggregateStep

__all__ = ["evaluator", "last_value"]


def evaluator(step: AggregateStep) -> Outputs:
    """Outputs whose TRY holds.

    DuckDB takes a subexpression that stands twice out of the TRY around it, where its error
    fails the query; so the optimizer that does this must be off.
    """
    outputs = Outputs(step)
    outputs._engine.execute("SET disabled_optimizers = 'common_subexpressions'")
    return outputs


def last_value(step: AggregateStep, frame: dict[str, pa.Array]) -> pa.Array:
    """The last output column."""
    return evaluator(step).columns(frame)[-1]
