"""The readable tables of a job and their topics, and the reasons why others are not readable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from urllib.parse import quote

from holdfast.errors import HoldfastError
from holdfast.serve.contract import Unserved
from holdfast.serve.tables.base import StoredTable
from holdfast.serve.tables.changelog import ChangelogTable
from holdfast.serve.tables.topic import TopicTable
from holdfast.types.columns.schemas import Schemas
from holdfast.types.ids import changelog_topic, state_name
from holdfast.types.statements.facts import source_facts
from holdfast.types.statements.topology import AggregateStep, Emit, Query, Sink, Source, Topology

__all__ = ["Candidate", "Candidates", "candidates"]


@dataclass(frozen=True)
class Candidate:
    """A table with its rows in `topic`; call `made` with the number of partitions once known.

    Attributes:
        query_id: the query whose changelog has the rows; None: they are in a topic of their own.
        moved: the same table in another generation of that changelog.
    """

    name: str
    topic: str
    made: Callable[[int], StoredTable]
    query_id: str | None = None
    moved: Callable[[int], Candidate] | None = None

    def of(self, generation: int) -> Candidate:
        """The table in a generation of its changelog."""
        return self if self.moved is None else self.moved(generation)


@dataclass(frozen=True)
class Candidates:
    """The relations of a job's statements: tables to serve, and the rest."""

    tables: tuple[Candidate, ...]
    unserved: tuple[Unserved, ...]


def candidates(
    topology: Topology, application_id: str, schemas: Schemas | None = None
) -> Candidates:
    """The relations of a job, in the order of its statements.

    Args:
        schemas: the registry of formats that have one; None: there is none.
    """
    tables: list[Candidate] = []
    unserved: list[Unserved] = []
    for found in _relations(topology, application_id, schemas):
        if isinstance(found, Candidate):
            tables.append(found)
        else:
            unserved.append(found)
    return Candidates(tuple(tables), tuple(unserved))


def _relations(
    topology: Topology, application_id: str, schemas: Schemas | None
) -> Iterator[Candidate | Unserved]:
    written = {q.sink.name for q in topology.queries}
    for source in topology.sources:
        if source.name in written:
            continue
        if source.kind == "TABLE":
            yield _topic_table(source, None, application_id, schemas)
        else:
            yield _stream(source)
    for query in topology.queries:
        if query.sink.internal:
            continue
        if query.sink.kind == "TABLE":
            yield _of_query(query, application_id, schemas)
        else:
            yield _stream(query.sink)


def _stream(relation: Source | Sink) -> Unserved:
    return Unserved(
        relation.name,
        "STREAM",
        f"{relation.name} is a stream: it has no row per key. Aggregate it into a table, and read "
        "that.",
    )


def _of_query(query: Query, application_id: str, schemas: Schemas | None) -> Candidate | Unserved:
    step = query.step
    # The store holds results that are not final yet; the topic holds the final ones.
    if not isinstance(step, AggregateStep) or step.emit is Emit.FINAL:
        return _topic_table(query.sink.as_source(), query, application_id, schemas)
    return _aggregate(query, step, application_id, 0)


def _aggregate(
    query: Query, step: AggregateStep, application_id: str, generation: int
) -> Candidate:
    topic = changelog_topic(application_id, query.id, generation)

    def made(partitions: int) -> StoredTable:
        sink = query.sink
        return ChangelogTable(
            sink.name,
            application_id,
            state_name(query.id, generation),
            query.statement,
            query.id,
            topic,
            partitions,
            sink.key_columns,
            sink.value_columns,
            sink.window,
            sink.window_size_ms,
            query.fingerprint(),
            step,
            generation,
        )

    moved = partial(_aggregate, query, step, application_id)
    return Candidate(query.sink.name, topic, made, query.id, moved)


def _store_name(source: Source) -> str:
    """The store's name; it depends on the declaration, since another may decode other records.

    A store has only the records that could be decoded when they arrived.
    """
    declared = sha256(source_facts(source).encode()).hexdigest()
    return f"table-{quote(source.name, safe='')}-{declared[:8]}"


def _topic_table(
    source: Source, query: Query | None, application_id: str, schemas: Schemas | None
) -> Candidate | Unserved:
    def made(partitions: int) -> StoredTable:
        return TopicTable(
            source.name,
            application_id,
            _store_name(source),
            query.statement if query is not None else "",
            query.id if query is not None else None,
            source.topic,
            partitions,
            source.key_columns,
            source.value_columns,
            source.window,
            source.window_size_ms,
            None,
            source,
            query is not None,
            schemas,
        )

    if source.key_format.schema_kind and query is None:
        # Each schema gives the same key other bytes, and others may write with several.
        return Unserved(
            source.name,
            "TABLE",
            f"{source.name} has keys in {source.key_format}, whose bytes depend on who writes "
            "them. Make a table from it by CREATE TABLE … AS SELECT, and read that.",
        )
    try:
        made(1)
    except HoldfastError as error:
        return Unserved(source.name, "TABLE", f"{source.name} cannot be decoded: {error.fact}")
    if not source.key_columns:
        return Unserved(source.name, "TABLE", f"{source.name} has no primary key.")
    return Candidate(source.name, source.topic, made)
