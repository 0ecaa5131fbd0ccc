"""Registers the schemas of what a job writes, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from holdfast.types.columns.schemas import DataSchema, Schemas
from holdfast.types.statements.topology import Sink, Source, Topology

__all__ = ["registered", "to_register", "with_registered"]

_Written = TypeVar("_Written", Sink, Source)


def to_register(topology: Topology) -> Iterator[DataSchema]:
    """The schemas of sinks, and of topics of INSERT INTO … VALUES, that a start registers.

    None without a query: such a job does not start.
    """
    if not topology.queries:
        return
    written = [*(q.sink for q in topology.queries), *(i.source for i in topology.insertions)]
    seen: set[str] = set()
    for data in (each for s in written for each in (s.key_schema, s.value_schema)):
        if data is not None and not data.fixed and data.subject not in seen:
            seen.add(data.subject)
            yield data


def with_registered(topology: Topology, schemas: Schemas) -> Topology:
    """The Topology with the ids of the schemas it writes with; registers those that are new.

    Raises:
        SchemaRefused: a schema is not compatible with what its subject has.
        RegistryUnavailable: the registry does not answer.
    """
    queries = tuple(replace(q, sink=registered(q.sink, schemas)) for q in topology.queries)
    insertions = tuple(
        replace(i, source=registered(i.source, schemas)) for i in topology.insertions
    )
    return replace(topology, queries=queries, insertions=insertions)


def registered(written: _Written, schemas: Schemas) -> _Written:
    """One of them; see `with_registered`."""
    return replace(
        written,
        key_schema=_with_id(written.key_schema, schemas),
        value_schema=_with_id(written.value_schema, schemas),
    )


def _with_id(data: DataSchema | None, schemas: Schemas) -> DataSchema | None:
    if data is None or data.fixed:
        return data
    return replace(data, id=schemas.register(data.subject, data.schema))
