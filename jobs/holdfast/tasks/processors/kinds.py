"""Which processor a query needs."""

from __future__ import annotations

from holdfast.tasks.processors.aggregate import AggregateProcessor
from holdfast.tasks.processors.base import Processor
from holdfast.types.topology import AggregateStep, Query

__all__ = ["processor_of"]


def processor_of(query: Query) -> Processor:
    """The processor of a query with state.

    Raises:
        TypeError: the query keeps no state.
    """
    if isinstance(query.step, AggregateStep):
        return AggregateProcessor(query)
    raise TypeError(f"{query.id} keeps no state")
