"""Sets when the queries of a test case emit."""

from __future__ import annotations

from dataclasses import replace

from holdfast.types.statements.topology import AggregateStep, Emit, JoinStep, Query

__all__ = ["with_emit"]


def with_emit(query: Query, emit: Emit) -> Query:
    """The query with another emit mode; EMIT FINAL stays."""
    step = query.step
    if not isinstance(step, AggregateStep | JoinStep) or step.emit is Emit.FINAL:
        return query
    return replace(query, step=replace(step, emit=emit))
