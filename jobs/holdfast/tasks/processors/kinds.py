"""Which processor a query needs."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.tasks.processors.aggregates.aggregate import AggregateProcessor
from holdfast.tasks.processors.aggregates.records import RecordAggregateProcessor
from holdfast.tasks.processors.aggregates.state import by_record
from holdfast.tasks.processors.base import Processor
from holdfast.tasks.processors.deduplicate import DeduplicateProcessor
from holdfast.tasks.processors.sessions.batch import SessionBatchProcessor
from holdfast.tasks.processors.sessions.final import SessionFinalProcessor
from holdfast.tasks.processors.sessions.session import SessionProcessor
from holdfast.tasks.processors.stream_joins.join import StreamJoinProcessor
from holdfast.tasks.processors.tables.changes import ChangesProcessor
from holdfast.tasks.processors.tables.foreign_key import ForeignKeyProcessor
from holdfast.tasks.processors.tables.resolve import ResolveProcessor
from holdfast.tasks.processors.tables.stream_table import StreamTableProcessor
from holdfast.tasks.processors.tables.subscribe import SubscribeProcessor
from holdfast.tasks.processors.tables.table_table import TableTableProcessor
from holdfast.tasks.processors.tables.table_where import TableWhereProcessor
from holdfast.types.statements.topology import (
    AggregateStep,
    ChangesStep,
    DeduplicateStep,
    Emit,
    JoinForm,
    JoinStep,
    Query,
    ResolveStep,
    SubscribeStep,
    TableStep,
    WindowKind,
)

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


def row_processor(query: Query) -> Processor | None:
    """The processor of a join or of single rows; None for other steps."""
    step = query.step
    kinds = _JOINS if isinstance(step, JoinStep) else _STEPS
    make = kinds.get(step.form if isinstance(step, JoinStep) else type(step))
    return make(query) if make is not None else None


_Kinds = dict[object, Callable[[Query], Processor]]

_JOINS: _Kinds = {
    JoinForm.STREAM_STREAM: StreamJoinProcessor,
    JoinForm.STREAM_TABLE: StreamTableProcessor,
    JoinForm.TABLE_TABLE: TableTableProcessor,
    JoinForm.FOREIGN_KEY: ForeignKeyProcessor,
}
_STEPS: _Kinds = {
    ChangesStep: ChangesProcessor,
    DeduplicateStep: DeduplicateProcessor,
    ResolveStep: ResolveProcessor,
    SubscribeStep: SubscribeProcessor,
    TableStep: TableWhereProcessor,
}
