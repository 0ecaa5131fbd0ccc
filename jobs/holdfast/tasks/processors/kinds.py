"""Which processor a query needs."""

from __future__ import annotations

from holdfast.tasks.processors.aggregates.aggregate import AggregateProcessor
from holdfast.tasks.processors.aggregates.records import RecordAggregateProcessor
from holdfast.tasks.processors.aggregates.state import by_record
from holdfast.tasks.processors.base import Processor
from holdfast.tasks.processors.joins import row_processor
from holdfast.tasks.processors.sessions.batch import SessionBatchProcessor
from holdfast.tasks.processors.sessions.final import SessionFinalProcessor
from holdfast.tasks.processors.sessions.session import SessionProcessor
from holdfast.types.topology import AggregateStep, Emit, Query, WindowKind

__all__ = ["processor_of"]


_SESSIONS: dict[Emit, type[SessionProcessor]] = {
    Emit.BATCH: SessionBatchProcessor,
    Emit.RECORD: SessionProcessor,
    Emit.FINAL: SessionFinalProcessor,
}


def processor_of(query: Query) -> Processor:
    """The processor of a query with state.

    Raises:
        TypeError: the query keeps no state.
    """
    if isinstance(query.step, AggregateStep):
        window = query.step.window
        if window is not None and window.kind is WindowKind.SESSION:
            return _SESSIONS[query.step.emit](query)
        if not by_record(query.step):
            return AggregateProcessor(query)
        return RecordAggregateProcessor(query)
    found = row_processor(query)
    if found is None:
        raise TypeError(f"{query.id} keeps no state")
    return found
