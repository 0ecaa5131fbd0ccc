"""SHOW, DESCRIBE and EXPLAIN of a session, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table

from holdfast.config.secrets import redacted
from holdfast.config.table import rows as properties
from holdfast.sql import explain
from holdfast.sql.functions.docs import Entry, reference
from holdfast.sql.parse.clauses import Name
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import Describe, Show
from holdfast.sql.parse.text import Definitions
from holdfast.sql.plan.sources.listing import relations
from holdfast.tasks.aggregates.base import AggregateFunction
from holdfast.types.statements.topology import Query, Sink, Source, Topology
from holdfast.types.status import QueryState

__all__ = ["Shown", "grid"]


def grid(*heads: str) -> Table:
    """An empty table; its column headers are in upper case."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head.upper(), overflow="fold")
    return table


class Shown:
    """The data that a session can show."""

    def __init__(
        self,
        topology: Topology,
        definitions: Definitions,
        functions: Mapping[str, AggregateFunction],
        given: Mapping[str, object],
        jobs: Mapping[str, Mapping[str, QueryState]],
    ) -> None:
        """`jobs`: query states of reachable jobs, by application id and query id."""
        self._jobs = jobs
        self._topology = topology
        self._definitions = definitions
        self._functions = functions
        self._given = given
        self._catalog = relations(topology)

    def show(self, statement: Show) -> Iterator[RenderableType]:
        """SHOW / LIST of anything but topics."""
        if statement.what in ("STREAMS", "TABLES"):
            yield from self._all_of(statement.what, statement.extended)
        elif statement.what == "QUERIES":
            yield self._queries(statement.extended)
            if self._jobs:
                yield self._running()
        elif statement.what == "FUNCTIONS":
            yield self._function_table()
        elif statement.what == "PROPERTIES":
            yield self._properties()
        elif statement.what == "TYPES":
            types = sorted(self._definitions.types.items())
            yield _pairs("type name", "type", ((n, str(t)) for n, t in types))
        else:
            yield _pairs("variable", "value", sorted(self._definitions.variables.items()))

    def _all_of(self, what: str, extended: bool) -> Iterator[RenderableType]:
        found = [s for s in self._catalog.values() if f"{s.kind}S" == what]
        if extended:
            for one in found:
                yield from self._source(one, extended=True)
            return
        table = grid(what.removesuffix("S"), "topic", "key format", "value format", "windowed")
        for one in sorted(found, key=lambda s: s.name):
            windowed = str(one.window) if one.window else "no"
            table.add_row(one.name, one.topic, one.key_format, one.value_format, windowed)
        yield table

    def _queries(self, extended: bool) -> Table:
        heads = ("query", "writes", "topic", "reads", "state")
        table = grid(*heads, "statement") if extended else grid(*heads)
        for query in self._topology.queries:
            reads = ", ".join(s.name for s in query.sources)
            kept = "kept in a store" if query.stateful else "none"
            row = (query.id, query.sink.name, query.sink.topic, reads, kept)
            table.add_row(*row, *([query.statement] if extended else []))
        return table

    def _running(self) -> Table:
        table = grid("job", "query", "status")
        for job, queries in sorted(self._jobs.items()):
            for query_id, state in sorted(queries.items()):
                table.add_row(job, query_id, state)
        return table

    def _function_table(self) -> Table:
        table = grid("function", "kind", "what it does")
        for entry in sorted(self._reference(), key=lambda e: e.name):
            table.add_row(entry.name, entry.kind, entry.sentence)
        return table

    def _reference(self) -> list[Entry]:
        known = reference()
        names = {e.name for e in known}
        given = [Entry(n, "aggregate", (n,), "User-defined.") for n in self._functions]
        return known + [e for e in given if e.name not in names]

    def _properties(self) -> Table:
        table = grid("property", "value", "from")
        in_script = dict(self._topology.properties)
        for name, default, _, _ in properties():
            value, origin = default, "default"
            if name in self._given:
                value, origin = redacted(name, self._given[name]), "configuration"
            if name in in_script:
                value, origin = in_script[name], "SET"
            table.add_row(name, value, origin)
        return table

    def describe(self, statement: Describe, script: Script) -> Iterator[RenderableType]:
        """DESCRIBE of a stream or table, of all of them, or of a function.

        Raises:
            InvalidStatement: nothing has that name.
        """
        name = statement.name
        if name is None:
            for one in [s for s in self._catalog.values() if f"{s.kind}S" == statement.kind]:
                yield from self._source(one, statement.extended)
        elif statement.kind == "FUNCTION":
            yield self._function(name, script)
        elif name.text not in self._catalog:
            raise script.unknown(name.at, "stream or table", name.text, self._catalog)
        else:
            yield from self._source(self._catalog[name.text], statement.extended)

    def _function(self, name: Name, script: Script) -> RenderableType:
        entries = self._reference()
        found = [e for e in entries if e.name == name.text]
        if not found:
            raise script.unknown(name.at, "function", name.text, [e.name for e in entries])
        table = grid("kind", "signature", "what it does")
        for entry in found:
            for signature in entry.signatures:
                table.add_row(entry.kind, signature, entry.sentence)
        return table

    def _source(self, of: Source | Sink, extended: bool) -> Iterator[RenderableType]:
        table = grid("field", "type")
        table.title = f"{of.kind} {of.name}"
        table.title_justify = "left"
        mark = "primary key" if of.kind == "TABLE" else "key"
        for column in of.key_columns:
            table.add_row(column.name, f"{column.type} ({mark})")
        for column in of.value_columns:
            table.add_row(column.name, str(column.type))
        for header in of.headers if isinstance(of, Source) else ():
            what = f"header('{header.key}')" if header.key else "headers"
            table.add_row(header.column.name, f"{header.column.type} ({what})")
        yield table
        if extended:
            yield _pairs("about", "", self._facts(of))

    def _facts(self, of: Source | Sink) -> Iterator[tuple[str, str]]:
        yield "topic", of.topic
        yield "key format", str(of.key_format)
        yield "value format", str(of.value_format)
        yield "partitions", "the topic's" if of.partitions is None else str(of.partitions)
        yield "windows of the key", str(of.window or "none")
        spec = of.timestamp if isinstance(of, Source) else None
        yield "event time", spec.column if spec else "the record's timestamp"
        writers = [q for q in self._topology.queries if q.sink.name == of.name]
        yield "written by", self._named(iter(writers))
        for query in writers:
            for job, queries in sorted(self._jobs.items()):
                if query.id in queries:
                    yield f"{query.id} of {job}", queries[query.id]
        readers = (q for q in self._topology.queries if of.name in [s.name for s in q.sources])
        yield "read by", self._named(readers)

    @staticmethod
    def _named(queries: Iterator[Query]) -> str:
        return ", ".join(q.id for q in queries) or "no query of this session"

    def plan_of(self, name: Name, script: Script) -> str:
        """EXPLAIN of a query of the script.

        Raises:
            InvalidStatement: there is no query of that id.
        """
        wanted = name.text.lower()
        queries = self._topology.queries
        found = tuple(q for q in queries if q.id == wanted or q.id.startswith(f"{wanted}_"))
        if not any(q.id == wanted for q in found):
            raise script.unknown(name.at, "query", wanted, [q.id for q in queries])
        read = {s.name for q in found for s in q.sources}
        return explain(
            Topology(
                found,
                tuple(s for s in self._topology.sources if s.name in read),
                self._topology.properties,
            )
        )


def _pairs(
    left: str, right: str, rows: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]
) -> Table:
    table = grid(left, right)
    for one, other in rows:
        table.add_row(one, other)
    return table
