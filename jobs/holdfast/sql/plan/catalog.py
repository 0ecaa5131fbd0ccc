"""The streams and tables a statement can read: those declared, and the sinks before it."""

from __future__ import annotations

from holdfast.sql.parse.script import Script, did_you_mean
from holdfast.sql.parse.statements import CreateAs, CreateSource, Name
from holdfast.types.statements.topology import Query, Source, Topology

__all__ = ["Catalog"]


class Catalog:
    """Owns which names and sink topics are taken; `after`: by what was there before the script."""

    def __init__(self, script: Script, after: Topology) -> None:
        self._script = script
        self._sources = {s.name: s for s in after.sources}
        self._lines: dict[str, int] = {}
        self._queries: dict[str, Query] = {}
        for query in after.queries:
            if not query.sink.internal:
                self._queries[query.sink.name] = query
                self._sources[query.sink.name] = query.sink.as_source()

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    def get(self, name: str) -> Source | None:
        """The source of that name, if there is one."""
        return self._sources.get(name)

    def names(self) -> list[str]:
        """Every stream and table."""
        return list(self._sources)

    def topics(self) -> list[str]:
        """The topics that are read or written."""
        return [s.topic for s in self._sources.values()]

    def writer(self, name: str) -> Query | None:
        """The query that made the stream or table of that name, if one did."""
        return self._queries.get(name)

    def source(self, name: Name) -> Source:
        """The source of that name, or an error that names the nearest one."""
        found = self._sources.get(name.text)
        if found is None:
            hint = did_you_mean(name.text, self._sources)
            raise self._script.invalid(
                name.at,
                f"{name.text} does not exist.",
                cause="it is no stream or table that a statement before this one makes",
                action=hint or f"known are: {', '.join(sorted(self._sources)) or 'none'}",
            )
        return found

    def declare(self, source: Source, statement: CreateSource) -> None:
        """Register a declared source."""
        if not statement.or_replace:
            self._refuse_taken(statement.name, statement.kind)
        self._register(source, statement.name)

    def remove(self, name: str) -> None:
        """Forget a dropped source, and the query that makes it."""
        del self._sources[name]
        self._queries.pop(name, None)

    def replace(self, source: Source) -> None:
        """A source under its name with other columns."""
        self._sources[source.name] = source

    def add_query(self, query: Query, statement: CreateAs) -> None:
        """Register a query's sink, which later statements can read."""
        name = statement.name
        if statement.or_replace:
            self._queries.pop(name.text, None)
        else:
            self._refuse_taken(name, statement.kind)
        for other in self._queries.values():
            if other.sink.topic == query.sink.topic:
                raise self._script.invalid(
                    name.at,
                    f"{name.text} would write the topic {query.sink.topic}, which "
                    f"{other.sink.name} writes already",
                    action="give one of them another KAFKA_TOPIC in its WITH clause",
                )
            if other.id == query.id:
                raise self._script.invalid(
                    name.at,
                    f"the names {other.sink.name} and {name.text} differ only in case, so their "
                    f"queries would both be {query.id}",
                    action="rename one of them",
                )
        self._queries[name.text] = query
        self._register(query.sink.as_source(), name)

    def _register(self, source: Source, name: Name) -> None:
        self._sources[name.text] = source
        self._lines[name.text] = self._script.place(name.at)[0]

    def _refuse_taken(self, name: Name, kind: str) -> None:
        taken = self._sources.get(name.text)
        if taken is not None:
            word, line = taken.kind.lower(), self._lines.get(name.text)
            raise self._script.invalid(
                name.at,
                f"Cannot add {kind.lower()} '{name.text}': A {word} with the same name already "
                f"exists, the {word} {name.text} exists already"
                + (f", from line {line}" if line else ""),
                action="use another name, or CREATE ... IF NOT EXISTS to keep the first",
            )
