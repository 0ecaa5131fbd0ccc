"""Which processor a step over rows needs."""

from __future__ import annotations

from holdfast.tasks.processors.base import Processor
from holdfast.tasks.processors.changes import ChangesProcessor
from holdfast.tasks.processors.foreign_key import ForeignKeyProcessor
from holdfast.tasks.processors.resolve import ResolveProcessor
from holdfast.tasks.processors.stream_stream import StreamStreamProcessor
from holdfast.tasks.processors.stream_table import StreamTableProcessor
from holdfast.tasks.processors.subscribe import SubscribeProcessor
from holdfast.tasks.processors.table_table import TableTableProcessor
from holdfast.tasks.processors.table_where import TableWhereProcessor
from holdfast.types.topology import (
    ChangesStep,
    JoinForm,
    JoinStep,
    Query,
    ResolveStep,
    SubscribeStep,
    TableStep,
)

__all__ = ["row_processor"]


def row_processor(query: Query) -> Processor | None:
    """The processor of a join or of a table's rows; None: the step is another."""
    if isinstance(query.step, JoinStep):
        return _join(query, query.step.form)
    if isinstance(query.step, TableStep):
        return TableWhereProcessor(query)
    if isinstance(query.step, ChangesStep):
        return ChangesProcessor(query)
    if isinstance(query.step, SubscribeStep):
        return SubscribeProcessor(query)
    if isinstance(query.step, ResolveStep):
        return ResolveProcessor(query)
    return None


def _join(query: Query, form: JoinForm) -> Processor:
    if form is JoinForm.STREAM_STREAM:
        return StreamStreamProcessor(query)
    if form is JoinForm.STREAM_TABLE:
        return StreamTableProcessor(query)
    if form is JoinForm.FOREIGN_KEY:
        return ForeignKeyProcessor(query)
    return TableTableProcessor(query)
