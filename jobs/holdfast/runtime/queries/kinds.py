"""Makes the run of a query, with or without state."""

from __future__ import annotations

from holdfast.runtime.queries.query_run import QueryRun
from holdfast.runtime.queries.services import Services
from holdfast.runtime.queries.stateful import StatefulQuery
from holdfast.runtime.queries.stateless import StatelessQuery
from holdfast.runtime.topics import QueryTopics
from holdfast.types.statements.topology import Query

__all__ = ["run_of"]


def run_of(services: Services, query: Query, topics: QueryTopics) -> QueryRun:
    """The run of a query; it sends nothing before `prepare`."""
    kind = StatefulQuery if query.stateful else StatelessQuery
    return kind(services, query, topics)
