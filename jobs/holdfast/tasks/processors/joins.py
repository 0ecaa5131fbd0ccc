"""Which processor a step over rows needs."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.tasks.processors.base import Processor
from holdfast.tasks.processors.deduplicate import DeduplicateProcessor
from holdfast.tasks.processors.stream_joins.join import StreamJoinProcessor
from holdfast.tasks.processors.tables.changes import ChangesProcessor
from holdfast.tasks.processors.tables.foreign_key import ForeignKeyProcessor
from holdfast.tasks.processors.tables.resolve import ResolveProcessor
from holdfast.tasks.processors.tables.stream_table import StreamTableProcessor
from holdfast.tasks.processors.tables.subscribe import SubscribeProcessor
from holdfast.tasks.processors.tables.table_table import TableTableProcessor
from holdfast.tasks.processors.tables.table_where import TableWhereProcessor
from holdfast.types.topology import (
    ChangesStep,
    DeduplicateStep,
    JoinForm,
    JoinStep,
    Query,
    ResolveStep,
    SubscribeStep,
    TableStep,
)

__all__ = ["row_processor"]


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
