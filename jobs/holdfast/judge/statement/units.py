"""The units of judgement: a statement with its internal topics, or several statements that
write to one sink.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.judge.statement.statement import SourceName
from holdfast.judge.values import Untranslatable
from holdfast.types.statements.topology import (
    AggregateStep,
    DeduplicateStep,
    Emit,
    ProjectStep,
    Query,
    Sink,
    Source,
    Topology,
    WindowKind,
)

__all__ = ["Unit", "units"]

_LIMIT = re.compile(r"functions\.collect_\w+\.limit$")


@dataclass(frozen=True)
class Unit:
    """The statements that write to one sink.

    Attributes:
        statements: the queries of each, in processing order; all but the last one write internal
            topics.
        named: every stream and table that the statements may name.
        insertions: whether INSERT INTO … VALUES writes to the sink, too.
        properties: the properties that SET gives in the file.
        makers: by topic, the queries of the file that write it.
    """

    statements: tuple[tuple[Query, ...], ...]
    named: dict[str, Source]
    insertions: bool = False
    properties: tuple[tuple[str, str], ...] = ()
    makers: Mapping[str, Sequence[Query]] = field(default_factory=dict)

    def refuse_strange(self) -> None:
        """Refuses units that no recomputation supports.

        Raises:
            Untranslatable: the sink has other writers, values stand alone in their records, or a
                property changes what functions do.
        """
        bare = [r for r in (self.sink, *self.named.values()) if not r.wrap_single]
        used = {self.sink.topic, *(s.topic for q in self.queries for s in q.sources)}
        if any(relation.topic in used for relation in bare):
            raise Untranslatable("values that stand alone in their records (WRAP_SINGLE_VALUE)")
        if self.insertions:
            raise Untranslatable("INSERT INTO … VALUES writes to it, too")
        if len(self.statements) > 1 and self.sink.kind == "TABLE":
            raise Untranslatable("several statements write to this table")
        limit = next((name for name, _ in self.properties if _LIMIT.search(name)), "")
        if limit and any("COLLECT_" in q.statement.upper() for q in self.queries):
            raise Untranslatable(f"the property {limit}")

    @property
    def sink(self) -> Sink:
        return self.statements[0][-1].sink

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries of all statements."""
        return tuple(query for statement in self.statements for query in statement)

    @property
    def plain(self) -> Query | None:
        """The one query that reads one stream and keeps every key, if the unit has only that."""
        query = self.queries[0]
        whole = len(self.queries) == 1 and not self.insertions
        return query if whole and _is_plain(query) else None

    def origin(self, source: Source) -> Source | None:
        """The declared source that a stream's records come from with their times unchanged.

        None where they come from several sources, or are computed from other records.
        """
        while source.kind == "STREAM" and (makers := self.makers.get(source.topic)):
            query = makers[0]
            step = query.step
            passes = isinstance(step, DeduplicateStep) or (
                isinstance(step, ProjectStep) and not query.inputs
            )
            several = len(makers) > 1 or "EXPLODE" in query.statement.upper()
            if not passes or several or source.timestamp is not None:
                return None
            source = query.source
        return source if source.kind == "STREAM" else None

    def source(self, name: SourceName) -> Source:
        """The source that a statement names.

        Raises:
            Untranslatable: no source of that name is declared.
        """
        if name.name not in self.named:
            raise Untranslatable(f"{name.name} is not declared in these statements")
        return self.named[name.name]


def units(topology: Topology) -> Iterator[Unit]:
    """All units of a job, in the file's order."""
    named = {source.name: source for source in topology.sources}
    for query in topology.queries:
        if not query.sink.internal:
            named.setdefault(query.sink.name, query.sink.as_source())
    by_sink: dict[str, list[tuple[Query, ...]]] = {}
    steps: list[Query] = []
    for query in topology.queries:
        steps.append(query)
        if not query.sink.internal:
            by_sink.setdefault(query.sink.topic, []).append(tuple(steps))
            steps = []
    makers: dict[str, list[Query]] = {}
    for query in topology.queries:
        makers.setdefault(query.sink.topic, []).append(query)
    inserted = {insertion.source.topic for insertion in topology.insertions}
    for topic, statements in by_sink.items():
        yield Unit(tuple(statements), named, topic in inserted, topology.properties, makers)


def _is_plain(query: Query) -> bool:
    step = query.step
    if query.inputs or query.source.kind != "STREAM" or query.source.window is not None:
        return False
    if isinstance(step, ProjectStep):
        return True
    assert isinstance(step, AggregateStep), "the others have inputs"
    session = step.window is not None and step.window.kind is WindowKind.SESSION
    return not (step.undo or session or step.emit is Emit.FINAL)
