"""Topics between the steps of one statement, which are separate for every job."""

from __future__ import annotations

from dataclasses import fields, replace

from holdfast.types.statements.inputs import Input
from holdfast.types.statements.sources import Source
from holdfast.types.statements.topology import Query, Step, Topology

__all__ = ["for_application"]


def for_application(topology: Topology, application_id: str) -> Topology:
    """The Topology with internal topics named after the job: `<application.id>-<topic>`."""
    internal = {q.sink.topic for q in topology.queries if q.sink.internal}
    if not internal:
        return topology
    names = {topic: f"{application_id}-{topic}" for topic in internal}
    queries = tuple(_renamed(query, names) for query in topology.queries)
    return replace(topology, queries=queries)


def _renamed(query: Query, names: dict[str, str]) -> Query:
    sink = replace(query.sink, topic=names.get(query.sink.topic, query.sink.topic))
    source, step = _source(query.source, names), _step(query.step, names)
    return replace(query, source=source, step=step, sink=sink)


def _step(step: Step, names: dict[str, str]) -> Step:
    inputs = {f.name: getattr(step, f.name) for f in fields(step)}
    moved = {
        name: replace(each, source=_source(each.source, names))
        for name, each in inputs.items()
        if isinstance(each, Input)
    }
    return replace(step, **moved)  # type: ignore[arg-type]


def _source(source: Source, names: dict[str, str]) -> Source:
    return replace(source, topic=names.get(source.topic, source.topic))
