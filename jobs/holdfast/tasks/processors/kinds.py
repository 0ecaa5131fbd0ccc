"""Which processor a query needs."""

from __future__ import annotations

from holdfast.tasks.processors.aggregate import AggregateProcessor
from holdfast.tasks.processors.aggregate_records import RecordAggregateProcessor
from holdfast.tasks.processors.aggregate_state import by_record
from holdfast.tasks.processors.base import Processor
from holdfast.types.topology import AggregateStep, Query

__all__ = ["processor_of"]


def processor_of(query: Query) -> Processor:
    """The processor of a query with state.

    Raises:
        TypeError: the query keeps no state.
    """
    if isinstance(query.step, AggregateStep):
        if not by_record(query.step):
            return AggregateProcessor(query)
        return RecordAggregateProcessor(query)
    raise TypeError(f"{query.id} keeps no state")
