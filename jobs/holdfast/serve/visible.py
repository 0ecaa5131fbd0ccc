"""The part of the served statements that one caller may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.types.statements.topology import Query, Sink, Source, Topology, statements

__all__ = ["MayRead", "Visible", "visible"]

MayRead = Callable[[str], bool]
"""Whether the caller may read the stream or table of this resolved name."""


@dataclass(frozen=True)
class Visible:
    """The part of a job's statements that one caller may see.

    Attributes:
        topology: the statements that read and write only relations that the caller may read, and
            the readable declared streams and tables.  A statement reveals its sources, so if the
            caller may not read all of them, they see only its result.
        results: readable results of the other statements.
        names: names of all these, and of internal relations between a statement's steps.
        may_read: whether the caller may read a relation, of these statements or of others.
    """

    topology: Topology
    results: tuple[Sink, ...]
    names: frozenset[str]
    may_read: MayRead

    def sees(self, name: str) -> bool:
        """Whether the caller may see a stream or table, of these statements or of others."""
        return name in self.names or self.may_read(name)


def visible(topology: Topology, may_read: MayRead) -> Visible:
    """The part of `topology` that the caller may see."""
    whole = [s for s in statements(topology.queries).values() if _readable(s, may_read)]
    queries = tuple(query for steps in whole for query in steps)
    sources = tuple(s for s in topology.sources if may_read(s.name))
    written = (q.sink for q in topology.queries if q not in queries and not q.sink.internal)
    results = tuple(sink for sink in written if may_read(sink.name))
    shown: tuple[Source | Sink, ...] = (*sources, *(q.sink for q in queries), *results)
    seen = replace(topology, queries=queries, sources=sources)
    return Visible(seen, results, frozenset(s.name for s in shown), may_read)


def _readable(steps: tuple[Query, ...], may_read: MayRead) -> bool:
    between = {query.sink.name for query in steps if query.sink.internal}
    read = {source.name for query in steps for source in query.sources}
    return all(may_read(name) for name in (read - between) | {steps[-1].sink.name})
