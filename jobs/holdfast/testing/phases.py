"""The phases of a case in pure SQL.

ksqlDB's test runner carries out one statement after the other, and pipes each inserted record at
once through the queries that exist at that moment.  A phase is a group of statements that change
the queries, followed by the records that are inserted then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.runtime.schemas import with_registered
from holdfast.sql import compile_text
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import (
    AssertSource,
    AssertTombstone,
    AssertTopic,
    AssertValues,
    InsertValues,
)
from holdfast.sql.parse.text import Definitions, Place, parse, statement_places
from holdfast.testing.state_partition import StatePartition
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.topology import Query, Topology

__all__ = ["Life", "phases"]

_ASSERTIONS = (AssertSource, AssertTombstone, AssertTopic, AssertValues)


def phases(text: str, whole: Topology, schemas: Schemas) -> Iterator[Topology]:
    """The Topology at the end of each phase; the last one is `whole`.

    Raises:
        HoldfastError: a statement is refused.
    """
    for end in _ends(text):
        part = compile_text(text[:end], place=Place.TEST, schemas=schemas)
        yield with_registered(part, schemas)
    yield whole


def _ends(text: str) -> Iterator[int]:
    """The positions where phases end, except the last one."""
    known = Definitions()
    inserted, last = False, 0
    for start, end in statement_places(text):
        found = parse(Script(text[start:end]), known, place=Place.TEST)
        statement = found[0] if found else None
        if isinstance(statement, InsertValues):
            inserted = True
        elif inserted and not isinstance(statement, _ASSERTIONS):
            yield last
            inserted = False
        last = end


@dataclass
class Life:
    """The state of one case's queries, kept from phase to phase.

    Attributes:
        there: how many records each topic had when the phase began: old queries have read these,
            and new queries do not read them.
    """

    there: dict[str, int] = field(default_factory=dict)
    _queries: dict[str, Query] = field(default_factory=dict)
    _partitions: dict[str, StatePartition] = field(default_factory=dict)

    def partition(self, query: Query) -> StatePartition:
        """The state of a query: kept from the previous phase if the stored rows still fit."""
        before, found = self._queries.get(query.id), self._partitions.get(query.id)
        self._queries[query.id] = query
        same = before is not None and (before.statement == query.statement or query.replaces)
        if found is None or not same or not found.takes(query):
            found = self._partitions[query.id] = StatePartition(query)
        return found

    def rows(self, query_id: str) -> list[tuple[bytes, bytes]]:
        """The rows in a query's state; empty where it keeps none."""
        found = self._partitions.get(query_id)
        return found.rows() if found is not None else []

    def begin(self, topology: Topology, there: Mapping[str, int]) -> None:
        """Begins another phase: forgets dropped queries."""
        self.there = dict(there)
        ids = {query.id for query in topology.queries}
        self._queries = {i: query for i, query in self._queries.items() if i in ids}
