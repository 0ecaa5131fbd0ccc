"""Streams and tables that a script leaves behind, by name."""

from __future__ import annotations

from holdfast.types.statements.topology import Sink, Source, Topology

__all__ = ["relations"]


def relations(topology: Topology) -> dict[str, Source | Sink]:
    """Those declared and those that queries write; what stands between two steps is left out."""
    written = {q.sink.name: q.sink for q in topology.queries if not q.sink.internal}
    return {**written, **{s.name: s for s in topology.sources}}
