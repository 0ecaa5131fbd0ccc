"""The schemas that a job registers at its start: found beforehand, or registered."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.config.settings import Settings
from holdfast.runtime.schemas import to_register
from holdfast.transport.registry import open_registry
from holdfast.types.statements.topology import Topology

__all__ = ["SchemaFound", "find_schemas", "register_schemas"]


@dataclass(frozen=True)
class SchemaFound:
    """A schema of the job; `id` is None for one that is still to be registered."""

    subject: str
    id: int | None


def find_schemas(topology: Topology, settings: Settings) -> tuple[SchemaFound, ...]:
    """Asks the registry about the job's schemas; registers none.

    Raises:
        SchemaRefused: a start would be refused, since one does not fit its subject.
        RegistryUnavailable: the registry does not answer, or there is none.
    """
    wanted = tuple(to_register(topology))
    if not wanted:
        return ()
    schemas = open_registry(settings.registry.client())
    return tuple(
        SchemaFound(data.subject, schemas.registered(data.subject, data.schema)) for data in wanted
    )


def register_schemas(
    topology: Topology, settings: Settings
) -> tuple[tuple[SchemaFound, bool], ...]:
    """Registers the job's schemas; each with whether it was there before.

    Raises:
        SchemaRefused: one does not fit its subject; none is registered then.
        RegistryUnavailable: the registry does not answer, or there is none.
    """
    before = find_schemas(topology, settings)
    if not before:
        return ()
    schemas = open_registry(settings.registry.client())
    return tuple(
        (replace(found, id=schemas.register(data.subject, data.schema)), found.id is not None)
        for data, found in zip(to_register(topology), before, strict=True)
    )
