"""The columns of a source that a query reads; ingest decodes no others."""

from __future__ import annotations

from holdfast.tasks.processors.aggregates.state import HAS_NEW, HAS_OLD
from holdfast.types.statements.topology import (
    HEADERS,
    WINDOW_END,
    WINDOW_START,
    AggregateStep,
    Query,
)

__all__ = ["used_columns"]


def used_columns(query: Query, side: int = 0) -> tuple[str, ...]:
    """The names of the columns of one side's source that the query reads, in the source's order.

    Sides that read the same records (`Query.read_once`) have all of their columns.
    """
    sides = range(len(query.sources)) if query.read_once else (side,)
    source = query.sources[side]
    named = {name for s in sides for each in query.over_records(s) for name in each.columns}
    if isinstance(query.step, AggregateStep) and query.step.undo:
        named |= {HAS_OLD, HAS_NEW}
    if not query.stateful:  # its results have the headers of what it reads
        named.add(HEADERS)
    if source.timestamp is not None:
        named.add(source.timestamp.column)
    if source.kind == "TABLE":  # a record without a key is none of its rows
        named |= {c.name for c in source.key_columns}
    if source.window is not None:  # the sink's keys may have the windows of the source's
        named |= {WINDOW_START, WINDOW_END}
    return tuple(c.name for c in source.readable if c.name in named)
