"""What one caller may know of the statements that are served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.types.topology import Query, Sink, Source, Topology, statements

__all__ = ["MayRead", "Visible", "visible"]

MayRead = Callable[[str], bool]
"""Whether who asks may read the stream or table of this resolved name."""


@dataclass(frozen=True)
class Visible:
    """A job's statements as one caller may see them.

    Attributes:
        topology: statements that read and write only what the caller may read, whole, and the
            declared streams and tables among it.  A statement names what it reads: of one that
            reads something else the caller sees the result alone.
        results: what such statements write, as far as the caller may read it.
        names: of all this, and of what stands between two steps of a statement.
        may_read: whether the caller may read a name, which need not be one of these.
    """

    topology: Topology
    results: tuple[Sink, ...]
    names: frozenset[str]
    may_read: MayRead

    def sees(self, name: str) -> bool:
        """Whether the caller may know of a stream or table, of these statements or of others."""
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
