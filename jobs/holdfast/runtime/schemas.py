"""Registers the schemas of sinks, before anything is written."""

from __future__ import annotations

from dataclasses import replace

from holdfast.types.schemas import DataSchema, Schemas
from holdfast.types.topology import Sink, Topology

__all__ = ["needs_registry", "with_registered"]


def needs_registry(topology: Topology) -> bool:
    """Whether a sink has a schema to register."""
    sinks = [query.sink for query in topology.queries]
    return any(each is not None for s in sinks for each in (s.key_schema, s.value_schema))


def with_registered(topology: Topology, schemas: Schemas) -> Topology:
    """The Topology with the ids of its sinks' schemas; registers those that are new.

    Raises:
        SchemaRefused: a schema is not compatible with what its subject has.
        RegistryUnavailable: the registry does not answer.
    """
    queries = tuple(replace(q, sink=_registered(q.sink, schemas)) for q in topology.queries)
    return replace(topology, queries=queries)


def _registered(sink: Sink, schemas: Schemas) -> Sink:
    return replace(
        sink,
        key_schema=_with_id(sink.key_schema, schemas),
        value_schema=_with_id(sink.value_schema, schemas),
    )


def _with_id(data: DataSchema | None, schemas: Schemas) -> DataSchema | None:
    if data is None or data.fixed:
        return data
    return replace(data, id=schemas.register(data.subject, data.schema))
