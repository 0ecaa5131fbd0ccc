"""The streams and tables a statement can read: those declared, and the sinks before it."""

from __future__ import annotations

from holdfast.sql.script import Script
from holdfast.sql.statements import Name
from holdfast.types.topology import Query, Sink, Source, TimestampSpec

__all__ = ["Catalog"]


class Catalog:
    """Owns which names and sink topics are taken."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._sources: dict[str, Source] = {}
        self._lines: dict[str, int] = {}
        self._queries: dict[str, Query] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    def source(self, name: Name) -> Source:
        """The source of that name, or an error that names the nearest one."""
        found = self._sources.get(name.text)
        if found is None:
            raise self._script.unknown(name.at, "stream or table", name.text, self._sources)
        return found

    def declare(self, source: Source, name: Name) -> None:
        """Register a declared source."""
        self._refuse_taken(name)
        self._register(source, name)

    def add_query(self, query: Query, name: Name, timestamp: TimestampSpec | None) -> None:
        """Register a query's sink, which later statements can read."""
        self._refuse_taken(name)
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
        self._register(_as_source(query.sink, timestamp), name)

    def _register(self, source: Source, name: Name) -> None:
        self._sources[name.text] = source
        self._lines[name.text] = self._script.place(name.at)[0]

    def _refuse_taken(self, name: Name) -> None:
        taken = self._sources.get(name.text)
        if taken is not None:
            raise self._script.invalid(
                name.at,
                f"the {taken.kind.lower()} {name.text} exists already, "
                f"from line {self._lines[name.text]}",
                action="use another name, or CREATE ... IF NOT EXISTS to keep the first",
            )


def _as_source(sink: Sink, timestamp: TimestampSpec | None) -> Source:
    return Source(
        name=sink.name,
        kind=sink.kind,
        topic=sink.topic,
        key_columns=sink.key_columns,
        value_columns=sink.value_columns,
        key_format=sink.key_format,
        value_format=sink.value_format,
        timestamp=timestamp,
        partitions=sink.partitions,
        replicas=sink.replicas,
    )
